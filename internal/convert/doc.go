// Package convert translates between API objects and the values of the policy engine: one function
// per kind, in both directions, for the controller and for the commands that compute offline.
//
// A missing or invalid value is passed on unchanged: admission completes it and the engine judges
// it. Only addresses, which have their own type, are validated here.
//
// All functions are pure. They do not modify their arguments; results may share memory with them.
package convert
