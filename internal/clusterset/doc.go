// Package clusterset is the parent of the packages for several clusters under one hub.
//
//	feed -> wire -> claims -> union -> outbox -> wire -> remote
//
// A member sends its workloads (feed), as records (wire). The hub accepts what the member may claim
// (claims), holds the workloads of all members in one engine (union), and sends each member the
// policies for it, with the peers from other clusters (outbox). The member keeps these (remote),
// and computes its policies with them. Package peers decides which clusters and peers a policy
// selects. All of these are pure; packages hub and member do the I/O.
package clusterset
