// Commands by view, with {names} to fill in; a test runs each through the command line's parser.

export const COMMANDS = {
  "overview": ["kaisched top --once --server {server}"],
  "queues": ["kaisched queue ls --server {server}"],
  "queue": ["kaisched queue show {queue} --server {server}"],
  "jobs": ["kaisched jobs --server {server}"],
  "job": ["kaisched why {job} --server {server}"],
  "nodes": ["kaisched alloc --group node,queue --server {server}"],
  "evictions": ["kaisched report evictions --server {server}"],
  "fairness": ["kaisched fairness {queue} --server {server}"],
  "whatif-submit": ["kaisched whatif submit --queue {queue} --pods {pods} --gpus {gpus} --daemon http://127.0.0.1:8082"],
  "whatif": ["kaisched whatif set {target} {change} --daemon http://127.0.0.1:8082"]
};
