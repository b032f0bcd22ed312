// Package controller joins the loops of the controller: the policy controller and the server of
// what it computes, the inventory of the clouds, the realizer, and what they count and record.
//
// It owns the wiring, and the table of the clouds that are supported (see Clouds). What a loop
// needs of another is a small interface that the loop declares; only here do they meet. Run blocks
// until its context ends; everything else is set up before that, by one goroutine.
package controller
