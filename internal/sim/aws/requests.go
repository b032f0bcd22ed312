package aws

// Permission is an IpPermission of a request: one protocol and port range, any number of peers.
// Strings are taken as the caller wrote them and are checked and made canonical by the call.
type Permission struct {
	Protocol    string
	FromPort    *int32
	ToPort      *int32
	CIDRs       []CIDRPeer // IpRanges and Ipv6Ranges, in that order
	Groups      []GroupRef
	PrefixLists []PrefixListPeer
}

// CIDRPeer is an address block of a Permission. IPv6 tells which list of the request it came from.
type CIDRPeer struct {
	CIDR        string
	IPv6        bool
	Description string
}

// GroupRef is a referenced group of a Permission. GroupName may stand in for GroupID within the VPC
// of the rule's group.
type GroupRef struct {
	GroupID     string
	GroupName   string
	UserID      string // owning account; empty = the caller's
	VPCID       string
	PeeringID   string
	Description string
}

// PrefixListPeer is a prefix list of a Permission.
type PrefixListPeer struct {
	PrefixListID string
	Description  string
}

// CreateVPCInput are the parameters of CreateVpc.
type CreateVPCInput struct {
	CIDR               string
	AmazonProvidedIPv6 bool // a /56 is assigned
	IPv6CIDR           string
	Tags               Tags
}

// CreateSubnetInput are the parameters of CreateSubnet.
type CreateSubnetInput struct {
	VPCID    string
	CIDR     string
	IPv6CIDR string
	Zone     string // empty = the first zone of the region
	Tags     Tags
}

// CreateSecurityGroupInput are the parameters of CreateSecurityGroup.
type CreateSecurityGroupInput struct {
	Name        string
	Description string
	VPCID       string // empty = the default VPC
	Tags        Tags
}

// AuthorizeInput are the parameters of AuthorizeSecurityGroupIngress and -Egress.
type AuthorizeInput struct {
	GroupID     string
	GroupName   string // default VPC only; used when GroupID is empty
	Egress      bool
	Permissions []Permission
	RuleTags    Tags // tags of every created rule
}

// RevokeInput are the parameters of RevokeSecurityGroupIngress and -Egress: either Permissions or
// RuleIDs.
type RevokeInput struct {
	GroupID     string
	GroupName   string
	Egress      bool
	Permissions []Permission
	RuleIDs     []string
}

// RevokeResult is the answer of a revoke. Unknown holds one-peer permissions that matched no rule
// (default VPC only).
type RevokeResult struct {
	Revoked []SecurityGroupRule
	Unknown []Permission
}

// RuleUpdate is one element of ModifySecurityGroupRules: the whole new value of a rule that keeps
// its id and direction.
type RuleUpdate struct {
	RuleID            string
	Protocol          *string
	FromPort          *int32
	ToPort            *int32
	CIDRIPv4          string
	CIDRIPv6          string
	PrefixListID      string
	ReferencedGroupID string
	Description       *string // nil removes the description
}

// RuleDescription names a rule and its new description. Description nil removes it.
type RuleDescription struct {
	RuleID      string
	Description *string
}

// UpdateDescriptionsInput are the parameters of UpdateSecurityGroupRuleDescriptionsIngress and
// -Egress: either Permissions (whose peers carry the new descriptions) or Rules.
type UpdateDescriptionsInput struct {
	GroupID     string
	GroupName   string
	Egress      bool
	Permissions []Permission
	Rules       []RuleDescription
}

// InterfaceSpec is a NetworkInterface.N of RunInstances.
type InterfaceSpec struct {
	DeviceIndex        int
	NetworkInterfaceID string // an existing, detached interface; the other fields are then empty
	SubnetID           string
	GroupIDs           []string
	PrivateIP          string
	SecondaryIPs       []string
	IPv6               []string
	IPv6Count          int
	Description        string
	AssociatePublicIP  *bool
	KeepOnTermination  bool // DeleteOnTermination=false
}

// RunInstancesInput are the parameters of RunInstances.
type RunInstancesInput struct {
	ImageID, InstanceType, KeyName string
	MinCount, MaxCount             int
	SubnetID                       string
	GroupIDs                       []string
	PrivateIP                      string
	IPv6Count                      int
	Interfaces                     []InterfaceSpec // instead of SubnetID, GroupIDs, PrivateIP and IPv6Count
	ClientToken                    string
	Attributes                     InstanceAttributes
	Tags                           map[string]Tags // by resource type: instance, network-interface
}

// Reservation is the answer of RunInstances.
type Reservation struct {
	ID        string
	OwnerID   string
	Instances []Instance
}

// StateChange is an answer row of Start-, Stop- and TerminateInstances.
type StateChange struct {
	InstanceID        string
	Previous, Current InstanceState
}

// CreatePrefixListInput are the parameters of CreateManagedPrefixList.
type CreatePrefixListInput struct {
	Name        string
	Family      string // IPv4 or IPv6
	MaxEntries  int
	Entries     []EntrySpec
	ClientToken string
	Tags        Tags
}

// EntrySpec is a prefix list entry of a request.
type EntrySpec struct {
	CIDR        string
	Description string
}

// ModifyPrefixListInput are the parameters of ModifyManagedPrefixList. Nil pointers are absent
// parameters.
type ModifyPrefixListInput struct {
	PrefixListID   string
	CurrentVersion *int
	Name           *string
	MaxEntries     *int
	Add            []EntrySpec
	Remove         []string
}
