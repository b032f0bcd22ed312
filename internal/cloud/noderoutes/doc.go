// Package noderoutes is the loop that keeps routes to the Pods of each Node in route tables of a
// cloud.
//
// It owns, in the route tables and ranges that accounts name, the routes to interfaces (on Azure,
// only routes with our names). It also owns whether these interfaces forward packets for other
// addresses, the tag that claims a table, and the condition NodeRoutes and status.nodeRoutes of
// accounts. A pure function (Compute) decides what to do.
//
// It promises: a route that leads to anything but an interface is never changed. A table that
// another control plane has claimed is left alone. Nothing is written for an account whose mode is
// not enforce, which another instance of the controller works on, or which is being deleted.
// status.nodeRoutes names a change before it is made, so that this process or the next one can undo
// it when it is no longer wanted. While the cluster shows no Node at all, no route is removed.
//
// Concurrency: Start runs everything in one goroutine; Kick may be called by any.
package noderoutes
