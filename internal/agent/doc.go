// Package agent enforces policies on a host: the policies that were computed for the key of its
// ExternalNode or Node.
//
// It receives computed policies through package enforcer, makes a program of them with package nft,
// brings it into the kernel with package kernel, and reports the outcome of each. It promises:
//
//   - The last state stays in force, without limit, while the server cannot be reached, while this
//     process does not run, and after a restart of the host: it is also kept on disk, with a
//     checksum, and loaded before anything is received.
//   - A policy that cannot be expressed is refused as a whole, with the reason in its status. If it
//     was enforced in a former version, that version stays. No other policy is affected.
//   - What others change of our table is put right within two seconds. The table goes only by
//     Uninstall.
//   - No policy cuts failsafe flows.
//
// One goroutine, that of Agent.Run, decides and writes. Other methods only read, from anywhere.
//
// What the agent knows besides is kept by packages of their own, each of which says when there is
// something new: pods, services, fqdn and nodenetwork. Package disk keeps what is enforced, and
// package admission lets new Pods wait for it.
//
// # Running connections, and the tests of what becomes of each
//
//   - A policy forbids it now: it ends within three seconds, silently, and goes on if it is allowed
//     again before its ends give up. TestEstablishedConnectionsObey
//   - It is older than the agent: judged like others; if its addresses are translated for another
//     host, reported. TestConnectionsOlderThanTheRules, TestConnectionsWithoutRoomForLabels
//   - Neither sockets nor ports show the end that made it: it goes on if it is allowed either way
//     round. TestWayOfConnectionUnknown
//   - It began while the host was released: judged when the release ends. TestRelease
//   - conntrack was flushed: known again within a minute. TestConnectionsOlderThanTheRules
//   - It passes through a host with --forwarded: as of the host. TestForwardedIsJudged
//   - It is of a Pod: as of a host. TestEstablishedConnectionsOfPodsObey
//   - It is of a Pod on the Node's network: as the Node's. TestConnectionsOfPodsOnTheNodeNetwork
//   - It is being made while a policy comes that forbids it: not made. TestConnectionsBeingMade
//   - One end is gone: ended. TestHalfOfAConnection
//   - It has an address that the host has got since: as by the others. TestAddressOfTheHostChanges
//   - The agent is killed, or a policy is replaced by one that also allows it: it goes on, and no
//     packet is lost. TestKilledAtEveryStep
//   - Its domain name has another address now: it goes on. TestAddressesExpire
//
// Each change is appended to a file, with a checksum and the revision that also stands beside the
// rules, before it goes to the kernel. An agent starts with a state no older than the kernel's.
package agent
