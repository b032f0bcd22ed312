package v1alpha1

// LabelPrefix is the prefix of all labels of imported objects.
const LabelPrefix = "nephe.antrea.io/"

// Labels of VirtualMachine objects. Vpc objects carry LabelCPAName, LabelCPANamespace and
// LabelCloudVPCUID. Only Nephele writes them, from what the cloud says.
const (
	// LabelCPAName (VirtualMachine, Vpc) holds the name of the account. Only Nephele writes it.
	LabelCPAName = LabelPrefix + "cpa-name"
	// LabelCPANamespace (VirtualMachine, Vpc) holds the namespace of the account. Only Nephele
	// writes it.
	LabelCPANamespace = LabelPrefix + "cpa-namespace"
	// LabelCESName (VirtualMachine) holds the name of the selector. Only Nephele writes it.
	LabelCESName = LabelPrefix + "ces-name"
	// LabelCESNamespace (VirtualMachine) holds the namespace of the selector. Only Nephele writes
	// it.
	LabelCESNamespace = LabelPrefix + "ces-namespace"
	// LabelVPCName (VirtualMachine) holds the name of the Vpc object. Only Nephele writes it.
	LabelVPCName = LabelPrefix + "vpc-name"
	// LabelCloudVMUID (VirtualMachine, ExternalEntity, ExternalNode) holds the instance id on AWS,
	// the vmId GUID on Azure. Only the cloud decides it.
	LabelCloudVMUID = LabelPrefix + "cloud-vm-uid"
	// LabelCloudVPCUID (VirtualMachine, Vpc, ExternalEntity, ExternalNode) holds the VPC id on AWS,
	// the resource GUID of the VNET on Azure. Only the cloud decides it.
	LabelCloudVPCUID = LabelPrefix + "cloud-vpc-uid"
)

// Labels of ExternalEntity and ExternalNode objects, beside LabelCloudVMUID and LabelCloudVPCUID.
const (
	// LabelKind (ExternalEntity, ExternalNode) holds LabelKindVirtualMachine,
	// LabelKindNativeService or LabelKindNetworkInterface. Only the cloud decides it.
	LabelKind = LabelPrefix + "kind"
	// LabelOwnerVM (ExternalEntity, ExternalNode) holds the name of the VirtualMachine object, in
	// lower case. Only the cloud decides it.
	LabelOwnerVM = LabelPrefix + "owner-vm"
	// LabelOwnerVMVPC (ExternalEntity, ExternalNode) holds the name of the Vpc object. Only the
	// cloud decides it.
	LabelOwnerVMVPC = LabelPrefix + "owner-vm-vpc"
	// LabelNamespace (ExternalEntity, ExternalNode) holds the namespace of the VirtualMachine
	// object. Only Nephele writes it.
	LabelNamespace = LabelPrefix + "namespace"
	// LabelCloudVMName (ExternalEntity, ExternalNode) holds the name of the virtual machine in the
	// cloud, in lower case, if it is a legal label value. Users with the right to tag the machine
	// decide it.
	LabelCloudVMName = LabelPrefix + "cloud-vm-name"
	// LabelCloudVPCName (ExternalEntity, ExternalNode) holds the name of the VPC in the cloud, if
	// it is a legal label value. Users with the right to tag the VPC decide it.
	LabelCloudVPCName = LabelPrefix + "cloud-vpc-name"
	// LabelCloudRegion (ExternalEntity, ExternalNode) holds the region. Only the cloud decides it.
	LabelCloudRegion = LabelPrefix + "cloud-region"
	// LabelTagPrefix (VirtualMachine, ExternalEntity, ExternalNode) followed by the key of a tag
	// holds the value of the tag. Users with the right to tag the object in the cloud decide it;
	// where the account says UserTagsMerge, so do users that may update the VirtualMachine, whose
	// tags win.
	LabelTagPrefix = LabelPrefix + "tag-"
)

// The values of LabelKind.
const (
	// LabelKindVirtualMachine is the value of LabelKind for a virtual machine.
	LabelKindVirtualMachine = "virtualmachine"
	// LabelKindNativeService is the value of LabelKind for a native service.
	LabelKindNativeService = "cloudnativeservice"
	// LabelKindNetworkInterface is the value of LabelKind for a network interface.
	LabelKindNetworkInterface = "networkinterface"
)

// Labels of the ExternalEntity of a native service, beside LabelKind, LabelNamespace, LabelVPCName,
// LabelCloudVPCUID, LabelCloudVPCName, LabelCloudRegion and the labels of its tags.
const (
	// LabelOwnerService (ExternalEntity of a native service) holds the name of the
	// CloudNativeService object, in lower case. Only the cloud decides it.
	LabelOwnerService = LabelPrefix + "owner-service"
	// LabelCloudServiceKind (ExternalEntity of a native service) holds its kind, for example
	// RDSInstance. Only the cloud decides it.
	LabelCloudServiceKind = LabelPrefix + "cloud-service-kind"
	// LabelCloudServiceName (ExternalEntity of a native service) holds its name in the cloud, in
	// lower case, if it is a legal label value. Its owner decides it.
	LabelCloudServiceName = LabelPrefix + "cloud-service-name"
)

// Labels of the ExternalEntity of a network interface, beside LabelKind, LabelNamespace,
// LabelVPCName, LabelCloudVPCUID, LabelCloudVPCName, LabelCloudRegion and the labels of its tags.
const (
	// LabelOwnerInterface (ExternalEntity of a network interface) holds the name of the
	// NetworkInterface object, in lower case. Only the cloud decides it.
	LabelOwnerInterface = LabelPrefix + "owner-interface"
	// LabelCloudInterfaceUID (ExternalEntity of a network interface) holds the id of the interface,
	// if it is a legal label value. Only the cloud decides it.
	LabelCloudInterfaceUID = LabelPrefix + "cloud-interface-uid"
	// LabelCloudInterfaceName (ExternalEntity of a network interface) holds its name in the cloud,
	// in lower case, if it is a legal label value. Users with the right to tag it decide it.
	LabelCloudInterfaceName = LabelPrefix + "cloud-interface-name"
)

// InterfaceEntityNamePrefix followed by the name of a NetworkInterface is the name of its
// ExternalEntity.
const InterfaceEntityNamePrefix = "networkinterface-"

// ServiceEntityNamePrefix followed by the name of a CloudNativeService is the name of its
// ExternalEntity.
const ServiceEntityNamePrefix = "cloudnativeservice-"

// EntityNamePrefix followed by the name of a VirtualMachine is the name of its ExternalEntity or
// ExternalNode.
const EntityNamePrefix = "virtualmachine-"

// Condition types.
const (
	// ConditionReady (account, selector): True when all is well, else False with the first reason
	// why not.
	ConditionReady = "Ready"
	// ConditionCredentialsValid (account): the Secret was found and read, and the cloud accepts
	// what it holds.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionReachable (account): every region was read at the latest attempt.
	ConditionReachable = "Reachable"
	// ConditionEventsReceived (account): every event queue was read at the latest attempt. While it
	// is False, changes are found by polling. The account has it only if it names queues.
	ConditionEventsReceived = "EventsReceived"
	// ConditionMatched (selector): the selector selects at least one virtual machine, native
	// service or network interface.
	ConditionMatched = "Matched"
	// ConditionObserved (virtual machine, VPC): the cloud showed the object when the account was
	// last read.
	ConditionObserved = "Observed"
	// ConditionServicesRead (account): every API of the cloud about native services that selectors
	// ask for was read. While it is False, the message names the API and the right that is missing,
	// and its services are known by their interfaces only. Absent while no selector asks.
	ConditionServicesRead = "ServicesRead"
	// ConditionAddressed (native service): its addresses are known.
	ConditionAddressed = "Addressed"
	// ConditionRealized (virtual machine, native service, network interface): every policy that
	// applies is realized.
	ConditionRealized = "Realized"
	// ConditionPlanned (virtual machine, selector): what would be done if the mode were enforce.
	// True: it can all be done.
	ConditionPlanned = "Planned"
	// ConditionBreakGlass (virtual machine; selector and account of one): True while it is to be
	// released by the annotation AnnotationBreakGlass. The message says how far it is.
	ConditionBreakGlass = "BreakGlass"
	// ConditionAgented (virtual machine): True while the agent in it enforces the policies in place
	// of the cloud, False while a selector wants that and the cloud guards it; else absent. The
	// message says why, and what the cloud lets in.
	ConditionAgented = "Agented"
	// ConditionFailsafe (account): True while it has failsafe flows; the message names them.
	ConditionFailsafe = "Failsafe"
	// ConditionClaimed (VPC): True if this controller enforces in it, False if another one does.
	ConditionClaimed = "Claimed"
	// ConditionDependentsCut (account): True while interfaces that are not under control lose flows
	// because others are, as the account's dependents permit; absent if none does.
	ConditionDependentsCut = "DependentsCut"
	// ConditionRecordsSigned (account; virtual machine with an interface of which it is False):
	// False while some record of former groups is not signed. The message says whether it is
	// believed all the same.
	ConditionRecordsSigned = "RecordsSigned"
	// ConditionDrift (account): True while, and some time after, somebody else changes what we
	// hold.
	ConditionDrift = "Drift"
	// ConditionObstructed (virtual machine): True while the filter of its subnet, which is not
	// ours to change, denies what policies allow it.
	ConditionObstructed = "Obstructed"
	// ConditionFormerGroupsDeleted (virtual machine): True while policies guard it and security
	// groups that it had before do not exist any more. The message says what counts in their place.
	ConditionFormerGroupsDeleted = "FormerGroupsDeleted"
)

// Condition reasons.
const (
	// ReasonOK goes with every condition that is as one would wish.
	ReasonOK = "OK"
	// ReasonPending says that it is too early to tell.
	ReasonPending = "Pending"
	// ReasonSecretNotFound: the Secret, or its key, does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: the Secret holds no JSON object, or one that lacks what is needed.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonAuthFailed: the cloud refuses the credentials.
	ReasonAuthFailed = "AuthFailed"
	// ReasonTooLarge: the cloud has more to say than is listened to; the message names the bound.
	ReasonTooLarge = "TooLarge"
	// ReasonUnknownRegion: the account has no such region.
	ReasonUnknownRegion = "UnknownRegion"
	// ReasonUnreachable: the cloud does not answer, or not in full.
	ReasonUnreachable = "Unreachable"
	// ReasonQueueNotFound: there is no such event queue.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonThrottled: the cloud asks to call less often.
	ReasonThrottled = "Throttled"
	// ReasonProviderUnsupported: this build cannot work on that cloud.
	ReasonProviderUnsupported = "ProviderUnsupported"
	// ReasonAccountNotFound: the selector names an account that does not exist.
	ReasonAccountNotFound = "AccountNotFound"
	// ReasonAccountNotReady: the account of the selector cannot be read.
	ReasonAccountNotReady = "AccountNotReady"
	// ReasonSelectorInvalid: the selector asks for something contradictory or unsupported.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonNoMatch: the selector selects nothing.
	ReasonNoMatch = "NoMatch"
	// ReasonStale: what is shown is the last that was known.
	ReasonStale = "Stale"
	// ReasonAmbiguous: the cloud does not tell which of several interfaces belong to it.
	ReasonAmbiguous = "Ambiguous"
	// ReasonNoInterface: it has no interface of which the cloud tells.
	ReasonNoInterface = "NoInterface"
	// ReasonNoAddress: a service tag has no address at present.
	ReasonNoAddress = "NoAddress"
	// ReasonPolicyFailed: at least one policy cannot be realized.
	ReasonPolicyFailed = "PolicyFailed"
	// ReasonWouldBeRefused (condition Planned): all is as it should be, and at least one policy
	// would be refused if it were enforced.
	ReasonWouldBeRefused = "WouldBeRefused"
	// ReasonPlanOnly, ReasonReleased and ReasonBreakGlass: the mode of the virtual machine does not
	// let policies be enforced.
	ReasonPlanOnly   = "PlanOnly"
	ReasonReleased   = "Released"
	ReasonBreakGlass = "BreakGlass"
	// ReasonClaimedElsewhere: another controller claims the VPC.
	ReasonClaimedElsewhere = "ClaimedElsewhere"
	// ReasonSubnetDenies: the filter of the subnet denies it.
	ReasonSubnetDenies = "SubnetDenies"
	// ReasonDeletedByOwner: a user who may change the account has deleted it.
	ReasonDeletedByOwner = "DeletedByOwner"
	// ReasonRepaired: it was put right again.
	ReasonRepaired = "Repaired"
	// ReasonKept: it is not put right, because the mode forbids to write.
	ReasonKept = "Kept"
	// ReasonFlowsLost: interfaces that are not under control lose flows.
	ReasonFlowsLost = "FlowsLost"
	// ReasonNotBelieved: a record of former groups is not signed, so nothing is given back by it.
	ReasonNotBelieved = "NotBelieved"
	// ReasonNotPermitted: the rights in the cloud do not allow it.
	ReasonNotPermitted = "NotPermitted"
	// ReasonUnsigned: a record of former groups is believed although it is not signed, because it
	// may be older than the key.
	ReasonUnsigned = "Unsigned"
	// ReasonRestarted: nobody knows any more since the controller was started again.
	ReasonRestarted = "Restarted"
)
