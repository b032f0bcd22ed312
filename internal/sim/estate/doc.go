// Package estate reads descriptions of cloud accounts for the simulator: dumps of real accounts
// (see Load for the formats) and short YAML files of our own (see docs/simulator.md). The result is
// a world.State.
//
// Real dumps are rarely consistent: ids repeat, things refer to what is not there, host bits are
// set. Load repairs what it can, always in the same way for the same input, and tells every repair
// in its Report; nothing is dropped silently. What cannot be repaired is an error that names the
// file, the field and what was expected.
//
// The package keeps no state; its functions may be called concurrently.
package estate
