// Package kernel brings programs of package nft into the kernel, over netlink, and reads back what
// is there.
//
// It owns one table of family inet, and touches nothing else. It promises:
//
//   - A change is one transaction: it is in force as a whole or not at all, whenever the process
//     dies.
//   - The table belongs to the process that has it open: others can neither change nor flush it. It
//     outlives the process, and the next one takes it over as it is. Table.Owned is false where the
//     kernel has no such tables.
//   - Each change is the difference to what the kernel holds. After an error, and at first,
//     everything is read and compared, rule by rule and element by element; what is right already
//     is not written again.
//
// A Table is safe for concurrent use; its methods wait for one another.
//
// # Connections that are older than the rules
//
// An agent starts on a host where connections run already, and conntrack may take the wrong end for
// the one that made a connection that it has not followed. So before the first rule that drops, the
// table lets everything pass, and conntrack gets the connections that sockets have. The listening
// end, or the one ephemeral port, shows the maker; otherwise a connection goes on if it is allowed
// either way round. What conntrack forgets is given back each minute. A rule that passes packets of
// unknown connections would not do: what was cut comes back when conntrack forgets it. Two
// judgements in the kernel would take twice the rules for what happens once. Sockets of Pods are
// not seen: of unfollowed connections between Pods only ports show the maker. With both ends on
// ephemeral ports and no listener, a connection may go on though policies allow only the other way
// round.
package kernel
