// Package preview says what applying manifests would change: in the clouds, and in who reaches
// whom.
//
// It owns how manifests come to stand in the place of objects, what the webhooks would say to them,
// the plans of all accounts together, and the answer of the command plan as values, with text
// beside them. How a plan is made package plan knows, what it opens and closes forecast, and how it
// is printed the command.
//
// It reads what an Opener gives it, and opens, stores and changes nothing itself: the command reads
// clouds through it, and the controller what it has read already. A Planner and the Inputs that it
// plans with, which planning changes, belong to one goroutine.
package preview
