// Package arm speaks the protocols of Azure over the Azure side of a aws.World: the login of
// Microsoft Entra ID (OpenID configuration, tokens for client secrets, certificates and federated
// tokens), the metadata service's tokens for managed identities, Azure Resource Manager, and the
// queries of Resource Graph.
//
// One Handler serves all tenants and subscriptions; login and Resource Manager do not collide and
// share the door. Beyond the protocols it can throttle like the service (Throttle), disturb chosen
// calls (calls.Faults), wait (Latency), and it keeps a calls.Journal. A call's Action is the name
// that Azure gives the operation, as in Microsoft.Network/networkInterfaces/write; its Account is
// the subscription.
//
// A Handler, and each of its parts, may be used by any number of goroutines. It starts none itself.
// What the answer of a call says has been true at one moment between its arrival and its answer.
//
// # What is spoken
//
//   - Documents. PUT replaces a resource whole; unknown properties come back as they were. Ids and
//     names match in any case.
//
//   - Writable resources: network and application security groups, interfaces, virtual networks,
//     route tables, public addresses, virtual machines (also start, stop, deallocate, instance
//     view); rules, routes, subnets and peerings also one by one; resource groups, tags, locks.
//     Scale sets are readable.
//
//   - Operations end at once, or after --azure-operation-delay; until then a second write gets
//     AnotherOperationInProgress (409), and a write of a resource that references it RetryableError
//     (429). A fault with late lets the operation fail in the end.
//
//   - Lists and rules in effect. The resources of a subscription or resource group are listed, and
//     an interface of a machine that runs tells its effective security groups (az network nic
//     list-effective-nsg), with the blocks that each tag means there.
//
//   - Resource Graph knows the tables Resources and ComputeResources, and where, project, extend,
//     order by, limit and count. It leaves out what the caller may not read, and is
//     --azure-graph-lag behind.
//
//   - Rights. A principal without assignments may do everything; else what its roles say, including
//     joins.
//
//   - Throttling (--throttle): per subscription and principal 250 reads (25/s), 200 writes (10/s),
//     200 deletes (10/s), 15 times that per subscription, Microsoft.Network 1,000 writes and 10,000
//     reads per five minutes, Resource Graph 15 queries per five seconds.
//
//   - Verdict. Outbound by the group of the interface, then of its subnet; inbound the other way
//     round. Each group must allow, by its first matching rule, default rules included. The host
//     (168.63.129.16) and the metadata service are reached unless a rule with a tag of the platform
//     denies it. A Standard public address without a group is closed. Load balancers and
//     application gateways are followed to their targets in tests (azure.Cloud.Through), and
//     user-defined routes to appliances (azure.Verdicts.Led), not by this request. Not modelled:
//     Virtual Network Manager, floating IPs, ranges of inbound NAT, path maps and layer 4 listeners
//     of gateways. Gateways, connections and, but for Led, route tables count only for what
//     VirtualNetwork means; learnedRoutes of a saved state are prefixes that
//     gateways have learned, which no resource tells. Service tags have the addresses of a saved
//     state, or of what az network list-service-tags prints. With emptyGroupsVoidRules: true of a
//     subscription in a saved state, a rule that names several application security groups is
//     ignored as a whole while one of them is without members.
//
//   - GET /_sim/azure/ca.pem: the certificate
//
//   - GET /_sim/azure/allowed?src=&dst=&proto=&port=: verdict, reason, and the rule of each group.
//     src, dst: an address (srcvnet, dstvnet: the id of its network), the id of an interface, the
//     name of an interface or virtual machine
//
//   - POST /_sim/azure/settings?delay=&lag=: as the flags
//
//   - POST /_sim/azure/locks, /_sim/azure/denials: all locks; all assignments of policies that
//     deny: [{"assignment": "no-nsg", "scope": "/subscriptions/...", "action":
//     "Microsoft.Network/*/write"}]
//
//   - POST /_sim/azure/limits?subscription=: limits, e.g. {"rulesPerGroup": 10}
//
// Faults and journal are those above; action is Azure's name of the operation, such as
// Microsoft.Network/networkInterfaces/write, and account the subscription.
package arm
