// Package source reads what commands answer from: the cluster and the controller in it, manifests,
// and descriptions of cloud accounts (snapshots).
//
// It owns the flags that say which of these is read (ClusterFlags, AccessFlags, StagedFlags), the
// client, the question to the controller (Ask), and the Planner over a cluster or a snapshot. It
// computes no answer and prints none, only notes about what could not be read. Flags belong to one
// command; nothing is kept between two calls.
package source
