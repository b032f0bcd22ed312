// Package convert translates between API objects and the values of the policy engine: one function
// per kind, in both directions, for the controller and for the commands that compute offline.
//
// What an object leaves open or says wrongly is passed on as it is, for admission and the engine to
// complete and to judge, except for addresses: these have a type of their own and are judged here.
//
// All functions are pure. They do not modify their arguments; results may share memory with them.
package convert
