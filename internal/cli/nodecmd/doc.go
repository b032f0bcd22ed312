// Package nodecmd holds the commands "nephele node list" and "nephele node check": the state of the
// networks of Nodes, as their agents report it.
//
// It owns what they print. It reads AntreaAgentInfos, Nodes and Pods with the rights of its user,
// and writes nothing. A command runs once.
package nodecmd
