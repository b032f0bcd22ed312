// Package noderoutes is the loop that leads the addresses of Pods to their Nodes in route tables of
// a cloud.
//
// It owns the routes, in the route tables that accounts name, whose destinations lie in the ranges
// that they name and that lead to interfaces (on Azure, of which the names are ours); whether the
// interfaces that these routes lead to take packets for others; the tag that claims a table; and
// the condition NodeRoutes and status.nodeRoutes of accounts. What is to be done is computed by a
// pure function (Compute).
//
// It promises: a route that leads to anything but an interface is never changed. A table that
// another control plane has claimed is left alone. Nothing is written for an account whose mode is
// not enforce, which another instance of the controller works on, or which is being deleted. Before
// something is written status.nodeRoutes names it, so that it is taken back, also by the next
// process, once it is no longer asked for. While the cluster shows no Node at all, no route is
// removed.
//
// Concurrency: Start runs everything in one goroutine; Kick may be called by any.
package noderoutes
