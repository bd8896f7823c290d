// Commands by view, with {names} to fill in; a test runs each through the command line's parser.

export const COMMANDS = {
  "overview": ["kaisched top --once --server {server}"],
  "queues": ["kaisched queue ls --server {server}"],
  "queue": ["kaisched queue show {queue} --server {server}"],
  "jobs": ["kaisched top --server {server}"],
  "job": ["kaisched why {job} --server {server}"],
  "nodes": ["kaisched top --server {server}"],
  "evictions": ["kaisched top --server {server}"],
  "fairness": ["kaisched queue ls --watch --server {server}"],
  "whatif": ["kaisched whatif set {target} {change} --daemon http://127.0.0.1:8082"]
};
