// Package agentcmd holds the commands of hosts with an agent: "nephele agent" and its sub-commands,
// which are also the program nephele-agent.
//
// It owns their flags, the configuration file of the agent, what the agent prints, and when a host
// gets and renews its credentials. Enforcement belongs to package agent, credentials to package
// credential. A command runs once.
//
// Every host with an agent has in memory what this package imports. So it imports no SDK of a
// cloud, no clientset and no API server; a test of test/house checks that.
package agentcmd
