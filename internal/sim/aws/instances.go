package aws

import (
	"cmp"
	"slices"
	"time"
)

// With returns a copy of the instance with copies of its interfaces in the order of their device
// indexes.
func (i *Instance) With(nics []*NetworkInterface) Instance {
	c := i.Clone()
	for _, n := range nics {
		c.NetworkInterfaces = append(c.NetworkInterfaces, n.Clone())
	}
	slices.SortFunc(c.NetworkInterfaces, func(a, b NetworkInterface) int {
		return cmp.Or(cmp.Compare(a.Attachment.DeviceIndex, b.Attachment.DeviceIndex), cmp.Compare(a.ID, b.ID))
	})
	return c
}

// InterfaceChange is one attribute of an interface; exactly one is set.
type InterfaceChange struct {
	Description         *string
	SourceDestCheck     *bool
	Attachment          string // with DeleteOnTermination
	DeleteOnTermination *bool
}

// InstanceState is the power state of an instance; its value is the EC2 state code.
type InstanceState int

// Instance states.
const (
	Pending      InstanceState = 0
	Running      InstanceState = 16
	ShuttingDown InstanceState = 32
	Terminated   InstanceState = 48
	Stopping     InstanceState = 64
	Stopped      InstanceState = 80
)

// String returns the EC2 name of the state.
func (s InstanceState) String() string {
	switch s {
	case Pending:
		return "pending"
	case Running:
		return "running"
	case ShuttingDown:
		return "shutting-down"
	case Terminated:
		return "terminated"
	case Stopping:
		return "stopping"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// ParseInstanceState is the reverse of InstanceState.String.
func ParseInstanceState(name string) (InstanceState, bool) {
	for _, s := range []InstanceState{Pending, Running, ShuttingDown, Terminated, Stopping, Stopped} {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Instance is a virtual machine. NetworkInterfaces is filled in by describes, by device index; the
// state keeps interfaces apart and joins them by their Attachment.
type Instance struct {
	ID               string        `json:"id"`
	Account          string        `json:"account"`
	ReservationID    string        `json:"reservationId"`
	ImageID          string        `json:"imageId,omitempty"`
	InstanceType     string        `json:"instanceType,omitempty"`
	KeyName          string        `json:"keyName,omitempty"`
	ClientToken      string        `json:"clientToken,omitempty"`
	LaunchIndex      int           `json:"launchIndex,omitempty"`
	LaunchTime       time.Time     `json:"launchTime"`
	Zone             string        `json:"zone,omitempty"`
	Tenancy          string        `json:"tenancy,omitempty"`
	State            InstanceState `json:"state"`
	TransitionReason string        `json:"transitionReason,omitempty"`
	VPCID            string        `json:"vpcId,omitempty"`    // empty once terminated
	SubnetID         string        `json:"subnetId,omitempty"` // empty once terminated
	Tags             Tags          `json:"tags,omitempty"`
	Visible          time.Time     `json:"visible,omitzero"`
	// Attributes holds the attributes of ModifyInstanceAttribute.
	Attributes InstanceAttributes `json:"attributes,omitzero"`

	NetworkInterfaces []NetworkInterface `json:"-"`
}

// Primary returns the interface with device index 0, or nil.
func (i *Instance) Primary() *NetworkInterface {
	for n := range i.NetworkInterfaces {
		if a := i.NetworkInterfaces[n].Attachment; a != nil && a.DeviceIndex == 0 {
			return &i.NetworkInterfaces[n]
		}
	}
	return nil
}

// InstanceAttributes are what ModifyInstanceAttribute changes beside the groups.
type InstanceAttributes struct {
	KeepRunning  bool   `json:"disableApiStop,omitempty"`
	KeepAlive    bool   `json:"disableApiTermination,omitempty"`
	OnShutdown   string `json:"shutdownBehavior,omitempty"` // empty = stop
	UserData     string `json:"userData,omitempty"`         // base64
	EBSOptimized bool   `json:"ebsOptimized,omitempty"`
}

// Shutdown is what the guest's own shutdown does.
func (a InstanceAttributes) Shutdown() string { return cmp.Or(a.OnShutdown, "stop") }

// InstanceChange is one attribute of an instance other than its groups; exactly one is set.
type InstanceChange struct {
	Attributes      func(*InstanceAttributes)
	Type            string // of a stopped instance
	SourceDestCheck *bool  // of an instance with one interface
}

// Protected says why an instance is not stopped or terminated; nil if it may be.
func (i *Instance) Protected(verb string) error {
	switch {
	case verb == "terminated" && i.Attributes.KeepAlive:
		return Refuse("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
	case verb == "stopped" && i.Attributes.KeepRunning:
		return Refuse("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.ID)
	}
	return nil
}

// StateGone is the end of a terminated instance's record; it is never seen from outside.
const StateGone = "gone"
