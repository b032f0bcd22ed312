package world

import "errors"

var errPending = errors.New("being written")

// ARN is the Amazon resource name of the caller, as GetCallerIdentity prints it.
func (c Credential) ARN() string { return "" }

// UserID is the caller's unique id, as GetCallerIdentity prints it.
func (c Credential) UserID() string { return "" }

// ARN is the Amazon resource name of the role.
func (r Role) ARN() string { return "" }

// Credential looks up an access key. Expired session keys are still found: look at Expires.
func (w *World) Credential(accessKeyID string) (Credential, bool) { return Credential{}, false }

// AssumeRole gives temporary credentials for a role.
func (w *World) AssumeRole(caller Credential, in AssumeRoleInput) (Credential, error) {
	return Credential{}, errPending
}

// AvailabilityZones lists the zones of the region.
func (r *Region) AvailabilityZones() []Zone { return nil }

// Describes: no id = all; with ids an unknown or malformed one is an *Error. Sorted by id.
func (r *Region) VPCs(ids ...string) ([]VPC, error)                           { return nil, errPending }
func (r *Region) Subnets(ids ...string) ([]Subnet, error)                     { return nil, errPending }
func (r *Region) Instances(ids ...string) ([]Instance, error)                 { return nil, errPending }
func (r *Region) NetworkInterfaces(ids ...string) ([]NetworkInterface, error) { return nil, errPending }
func (r *Region) SecurityGroups(ids ...string) ([]SecurityGroup, error)       { return nil, errPending }
func (r *Region) SecurityGroupRules(ids ...string) ([]SecurityGroupRule, error) {
	return nil, errPending
}
func (r *Region) PeeringConnections(ids ...string) ([]PeeringConnection, error) {
	return nil, errPending
}
func (r *Region) PrefixLists(ids ...string) ([]PrefixList, error) { return nil, errPending }
func (r *Region) PrefixListEntries(id string, version int) ([]PrefixListEntry, error) {
	return nil, errPending
}                                     // version 0 = current
func (r *Region) Tags() []ResourceTag { return nil }

func (r *Region) CreateVPC(in CreateVPCInput) (VPC, error)          { return VPC{}, errPending }
func (r *Region) CreateSubnet(in CreateSubnetInput) (Subnet, error) { return Subnet{}, errPending }
func (r *Region) CreateSecurityGroup(in CreateSecurityGroupInput) (SecurityGroup, error) {
	return SecurityGroup{}, errPending
}
func (r *Region) DeleteSecurityGroup(id, name string) (deleted string, err error) {
	return "", errPending
}
func (r *Region) AuthorizeSecurityGroup(in AuthorizeInput) ([]SecurityGroupRule, error) {
	return nil, errPending
}
func (r *Region) RevokeSecurityGroup(in RevokeInput) (RevokeResult, error) {
	return RevokeResult{}, errPending
}
func (r *Region) ModifySecurityGroupRules(groupID string, updates []RuleUpdate) error {
	return errPending
}
func (r *Region) UpdateSecurityGroupRuleDescriptions(in UpdateDescriptionsInput) error {
	return errPending
}
func (r *Region) ModifyNetworkInterfaceGroups(nicID string, groupIDs []string) error {
	return errPending
}
func (r *Region) ModifyInstanceGroups(instanceID string, groupIDs []string) error { return errPending }
func (r *Region) CreateTags(ids []string, tags []Tag) error                       { return errPending }
func (r *Region) DeleteTags(ids []string, keys []TagKey) error                    { return errPending } // no keys = all tags
func (r *Region) RunInstances(in RunInstancesInput) (Reservation, error) {
	return Reservation{}, errPending
}
func (r *Region) StartInstances(ids []string) ([]StateChange, error) { return nil, errPending }
func (r *Region) StopInstances(ids []string, force bool) ([]StateChange, error) {
	return nil, errPending
}
func (r *Region) TerminateInstances(ids []string) ([]StateChange, error) { return nil, errPending }
func (r *Region) CreatePrefixList(in CreatePrefixListInput) (PrefixList, error) {
	return PrefixList{}, errPending
}
func (r *Region) ModifyPrefixList(in ModifyPrefixListInput) (PrefixList, error) {
	return PrefixList{}, errPending
}
func (r *Region) DeletePrefixList(id string) (PrefixList, error) { return PrefixList{}, errPending }

// Tag is one tag of a CreateTags request.
type Tag struct{ Key, Value string }

// TagKey names a tag to delete; Value nil deletes whatever its value.
type TagKey struct {
	Key   string
	Value *string
}

// Allowed decides a flow.
func (w *World) Allowed(f Flow) (Verdict, error) { return Verdict{}, errPending }

// State is the whole content of a World as plain data: what New starts from, and what Save writes.
type State struct {
	Version     int                 `json:"version"`
	Seed        uint64              `json:"seed,omitempty"`
	Counter     uint64              `json:"counter,omitempty"`
	Seq         uint64              `json:"seq,omitempty"`
	Accounts    []Account           `json:"accounts"`
	Credentials []Credential        `json:"credentials,omitempty"`
	Roles       []Role              `json:"roles,omitempty"`
	Regions     []RegionState       `json:"regions,omitempty"`
	Peerings    []PeeringConnection `json:"peerings,omitempty"`
}

// RegionState is what one account has in one region.
type RegionState struct {
	Account           string             `json:"account"`
	Name              string             `json:"name"`
	Zones             []Zone             `json:"zones,omitempty"`
	VPCs              []VPC              `json:"vpcs,omitempty"`
	Subnets           []Subnet           `json:"subnets,omitempty"`
	SecurityGroups    []SecurityGroup    `json:"securityGroups,omitempty"`
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
	Instances         []Instance         `json:"instances,omitempty"`
	PrefixLists       []PrefixList       `json:"prefixLists,omitempty"`
}

// New builds a World from a State.
func New(s State, o Options) (*World, error) { return nil, errPending }

// State returns a deep copy of everything.
func (w *World) State() State { return State{} }

// Save writes the state to a file, crash-safe. Load reads it back.
func (w *World) Save(path string) error           { return errPending }
func Load(path string, o Options) (*World, error) { return nil, errPending }

// SetPeeringStatus changes the status of a peering connection.
func (w *World) SetPeeringStatus(id, status string) error { return errPending }

// AddPeering, AddCredential and RemoveCredential change what no EC2 action of the simulator does.
func (w *World) AddPeering(p PeeringConnection) (PeeringConnection, error) { return p, errPending }
func (w *World) AddCredential(c Credential) error                          { return errPending }
func (w *World) RemoveCredential(accessKeyID string) error                 { return errPending }
