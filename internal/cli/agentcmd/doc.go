// Package agentcmd are the commands of hosts with an agent: "nephele agent" and what is below it,
// which are also the program nephele-agent.
//
// It owns their flags, the configuration file of the agent, what the agent prints, and how a host
// gets and renews its credentials. What is enforced and how belongs to package agent, credentials
// to package credential. A command runs once.
//
// What it imports, every host with an agent has in its memory: no SDK of a cloud, no clientset, no
// server of an API. A test at the root checks that.
package agentcmd
