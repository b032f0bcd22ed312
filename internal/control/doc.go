// Package control owns the one policy engine of a process: it feeds it from the Kubernetes API,
// publishes what it computes into the watch store, and writes back what enforcers report.
//
// It watches Namespaces, Pods, Nodes, Services, external entities and nodes, tiers, groups and
// policies. Whatever has arrived since the last round is given to the engine in one batch, and what
// that changes is published as one step. Nothing is published before every informer has delivered
// everything it began with, so that enforcers never see a part of the policies after a restart. The
// upstream kinds of policies, whose definitions may come and go, are watched while they are served;
// an answer that is not clear changes nothing.
//
// It writes: the status of policies and groups, the system tiers, and the ExternalEntity of every
// ExternalNode. What an object says wrongly is told in its status and in an Event, and changes
// nothing for the others.
//
// One goroutine drives the engine; a few workers write to the API, each object by one of them at a
// time. All of them end with Start. Store, Report and the questions (GroupMembers, GroupsOf,
// GroupsOfAddress, Endpoint, EvaluatePods) are safe for concurrent use at any time; questions are
// answered between two rounds.
package control
