// Package kernel brings programs of package nft into the kernel, over netlink, and reads back what
// is there.
//
// It owns one table of family inet, and touches nothing else. It promises:
//
//   - A change is one transaction: it is in force as a whole or not at all, even if the process
//     dies.
//   - The table belongs to the process that has it open: other processes can neither change nor
//     flush it. It outlives the process, and the next one adopts it. Table.Owned is false where the
//     kernel has no such tables.
//   - Each change is the difference to what the kernel holds. At the start and after an error, the
//     whole table is read and compared, rule by rule and element by element; what is correct is not
//     written again.
//
// A Table is safe for concurrent use; its methods wait for one another.
//
// # Connections that are older than the rules
//
// An agent starts on a host that already has connections, and conntrack may take the wrong end for
// the client of a connection that it has not tracked. So before the first rule that drops, the
// table lets everything pass, and the agent adds the connections of sockets to conntrack. The
// listening end, or the only ephemeral port, shows which end is the client; otherwise a connection
// continues if policies allow it in either direction. Every minute the agent adds again what
// conntrack has forgotten. Not chosen: a rule that passes packets of unknown connections, because a
// connection that was cut would come back once conntrack forgets it; judging both directions in the
// kernel, which takes twice the rules for something that happens once. Sockets of Pods are not
// seen: for untracked connections between Pods only ports show the client. With both ends on
// ephemeral ports and no listener, a connection may continue though policies allow only the
// opposite direction.
package kernel
