// Package nodecmd are the commands "nephele node list" and "nephele node check": how the networks
// of Nodes stand, as their agents tell.
//
// It owns what they print. It reads AntreaAgentInfos, Nodes and Pods with the rights of the person
// who runs it, and writes nothing. A command runs once.
package nodecmd
