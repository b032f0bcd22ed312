// Package kernel brings programs of package nft into the kernel, over netlink, and reads back what
// is there.
//
// It owns one table of family inet, and touches nothing else. It promises:
//
//   - A change is one transaction: it is in force as a whole or not at all, whenever the process
//     dies.
//   - The table belongs to the process that has it open: others can neither change nor flush it. It
//     outlives the process, and the next one takes it over as it is. A kernel that has no such
//     tables is told by Table.Owned.
//   - What is written follows from what the kernel holds. After an error, and at first, everything
//     is read and compared, rule by rule and element by element; what is right already is not
//     written again.
//
// A Table is safe for concurrent use; its methods wait for one another.
package kernel
