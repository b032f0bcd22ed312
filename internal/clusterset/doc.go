// Package clusterset is several clusters under one hub: see its parts.
//
//	feed -> wire -> claims -> union -> outbox -> wire -> remote
//
// A member tells what it has (feed), in records (wire). The hub believes what the member may claim
// (claims), holds all members' in one engine (union), and tells each member the policies for it
// and who of other clusters is in their peers (outbox). The member keeps that (remote), and
// computes its policies with it. Which clusters and peers a policy means says package peers. All of
// these are pure; hub and member do the rest.
package clusterset
