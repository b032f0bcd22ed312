// Package agent guards a host: it enforces on the host itself what was computed for the key of its
// ExternalNode.
//
// It is one more enforcer. It receives computed policies through package enforcer, makes a program
// of them with package nft, brings it into the kernel with package kernel, and reports what became
// of each policy. It promises:
//
//   - What was last enforced stays so, without limit, while the server cannot be reached, while
//     this process does not run, and after a restart of the host: what is enforced is kept on disk
//     as well, with a checksum, and is loaded before anything is received.
//   - A policy that cannot be expressed is refused as a whole, with the reason in its status. If it
//     was enforced in a former version, that version stays. No other policy is affected.
//   - What others change of our table is put right within two seconds. The table goes only by
//     Uninstall.
//   - Failsafe flows cannot be cut by any policy.
//
// One goroutine, that of Agent.Run, decides and writes. All other methods read what it has left and
// may be called from anywhere.
//
// # Running connections, and the tests of what becomes of each
//
//   - A policy forbids it now: it ends within three seconds, silently, and goes on if it is allowed
//     again before its ends give up. TestEstablishedConnectionsObey
//   - It is older than the agent: judged like others; if its addresses are translated for another
//     host, reported instead. TestConnectionsOlderThanTheRules,
//     TestConnectionsWithoutRoomForLabels
//   - Neither sockets nor ports show the end that made it: it goes on if it is allowed either way
//     round. TestWayOfConnectionUnknown
//   - It began while the host was released: judged when the release ends. TestRelease
//   - conntrack was flushed: known again within a minute. TestConnectionsOlderThanTheRules
//   - It passes through a host with --forwarded: as of the host. TestForwardedIsJudged
//   - It is of a Pod, or of a Pod in its Node's network: as of a host, or as the Node's own.
//     TestEstablishedConnectionsOfPodsObey, TestConnectionsOfPodsOnTheNodeNetwork
//   - It is being made while a policy comes that forbids it: not made. TestConnectionsBeingMade
//   - One end is gone: ended like others. TestHalfOfAConnection
//   - It has an address that the host has got since: as by the others. TestAddressOfTheHostChanges
//   - The agent is killed, or a policy is replaced by one that also allows it: it goes on, and no
//     packet is lost. TestKilledAtEveryStep
//   - Its domain name has another address now: it goes on. TestAddressesExpire
package agent
