// Package agent enforces policies on a host: the policies that were computed for the key of its
// ExternalNode or Node.
//
// It receives computed policies through package enforcer, compiles them with package nft, loads the
// program into the kernel with package kernel, and reports the outcome of each policy. It promises:
//
//   - The last state stays in force, without limit, while the server cannot be reached, while this
//     process does not run, and after a restart of the host: it is also kept on disk, with a
//     checksum, and loaded before anything is received.
//   - A policy that cannot be expressed is refused as a whole, with the reason in its status. If it
//     was enforced in a former version, that version stays. No other policy is affected.
//   - A change by others to our table is corrected within two seconds. Only Uninstall removes the
//     table.
//   - No policy cuts failsafe flows.
//
// One goroutine, that of Agent.Run, decides and writes. All other methods only read and may be
// called from any goroutine.
//
// Packages pods, services, fqdn and nodenetwork keep the agent's other inputs, and each signals
// when its input has changed. Package disk persists what is enforced, and package admission makes
// new Pods wait until their policies are.
//
// # Running connections, and the tests of what becomes of each
//
//   - A policy now forbids it: its packets are dropped within three seconds, and it continues if it
//     is allowed again before its ends time out. TestEstablishedConnectionsObey
//   - It is older than the agent: judged like others; if its addresses are translated for another
//     host, reported. TestConnectionsOlderThanTheRules, TestConnectionsWithoutRoomForLabels
//   - Neither sockets nor ports show which end is the client: it continues if it is allowed in
//     either direction. TestWayOfConnectionUnknown
//   - It began while the host was released: judged when the release ends. TestRelease
//   - conntrack was flushed: known again within a minute. TestConnectionsOlderThanTheRules
//   - It passes through a host with --forwarded: as for the host. TestForwardedIsJudged
//   - It is a Pod's: as for a host. TestEstablishedConnectionsOfPodsObey
//   - It belongs to a Pod on the Node's network: as the Node's.
//     TestConnectionsOfPodsOnTheNodeNetwork
//   - It is being established when a policy arrives that forbids it: it is not established.
//     TestConnectionsBeingMade
//   - One end is gone: it ends. TestHalfOfAConnection
//   - It has an address that the host got later: as above. TestAddressOfTheHostChanges
//   - The agent is killed, or a policy is replaced by one that also allows it: it goes on, and no
//     packet is lost. TestKilledAtEveryStep
//   - Its domain name has another address now: it goes on. TestAddressesExpire
//
// Before a change goes to the kernel, it is appended to a file, with a checksum and the revision
// that the rules also carry. So an agent starts with a state no older than the kernel's.
package agent
