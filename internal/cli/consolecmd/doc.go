// Package consolecmd is the command "nephele console", and what "up" and "demo" need to open the
// same console.
//
// It owns the flags, and where a console listens. What the console promises is said in package
// console. A command runs once.
package consolecmd
