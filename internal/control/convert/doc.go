// Package convert translates between API objects and the values of the policy engine: one function per kind, in both
// directions, for the controller and for the commands that compute offline.
//
// Into the engine, it fills what admission would have filled (an empty tier, empty rule names), so that an object means
// the same wherever it comes from. What an object says wrongly is passed on as it is, for the engine to judge, except for
// addresses: these have a type of their own and are judged here.
//
// All functions are pure. They do not modify their arguments; results may share memory with them.
package convert
