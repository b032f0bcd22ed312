package v1alpha1

// EnforcementMode says what may be done to virtual machines in the cloud.
// +kubebuilder:validation:Enum=enforce;plan;released
type EnforcementMode string

// The modes. Where several selectors select a virtual machine, the entry that names it most
// specifically decides in its namespace. Of several namespaces those decide that have a say in it
// (the account's and its ReleaseNamespaces), and of these the one whose mode writes least: plan,
// then released, then enforce. If none of them selects the virtual machine, the one whose mode
// writes most decides, and none writes more than the mode of the account.
const (
	// ModeEnforce: the policies that apply are enforced.
	ModeEnforce EnforcementMode = "enforce"
	// ModePlan: nothing is written to the virtual machine, whether it is under control or not; the
	// status says what would be done.
	ModePlan EnforcementMode = "plan"
	// ModeReleased: what is held is given back, and no policy is enforced.
	ModeReleased EnforcementMode = "released"
	// ModeBreakGlass is not written into a specification: it is what the annotation
	// AnnotationBreakGlass leads to.
	ModeBreakGlass EnforcementMode = "break-glass"
)

// AnnotationBreakGlass on a VirtualMachine, or on a CloudEntitySelector for all that it selects,
// releases at once and whatever the mode is, if its namespace has a say in that: the account's own
// and its ReleaseNamespaces. Its value is the reason, for readers of the status. Removing it
// enforces again, and so does the time of AnnotationBreakGlassUntil.
const AnnotationBreakGlass = "nephele.io/break-glass"

// AnnotationBreakGlassUntil beside AnnotationBreakGlass is when the release ends by itself: a time
// like 2026-01-02T15:04:05Z (RFC 3339). From then on AnnotationBreakGlass counts no more, be it
// there or not. What is no time ends nothing, and the status says so.
const AnnotationBreakGlassUntil = "nephele.io/break-glass-until"

// AnnotationFormerGroups on a CloudProviderAccount says which security groups interfaces had before
// they were taken over, where the record of it is not to be believed:
// "INTERFACE=GROUP,GROUP;INTERFACE=GROUP". It counts for no others.
const AnnotationFormerGroups = "nephele.io/former-groups"

// FailsafeFlow is traffic that is always allowed on virtual machines that policies apply to, before
// any rule. It isolates nothing by itself.
// +kubebuilder:validation:XValidation:rule="!has(self.port) || (has(self.protocol) && self.protocol in ['TCP', 'UDP'])",message="only TCP and UDP have ports"
// +kubebuilder:validation:XValidation:rule="!has(self.endPort) || (has(self.port) && self.endPort >= self.port)",message="endPort needs a port that is not greater"
type FailsafeFlow struct {
	// Direction, seen from the virtual machine.
	// +kubebuilder:validation:Enum=Ingress;Egress
	Direction string `json:"direction"`
	// Protocol; ICMP stands for ICMP and ICMPv6. Empty means all protocols.
	// +kubebuilder:validation:Enum=TCP;UDP;ICMP;""
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// Port, or with EndPort the first of a range; absent means all ports.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
	// EndPort is the last port of a range.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	EndPort *int32 `json:"endPort,omitempty"`
	// CIDRs of the other end.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="must be address ranges like 10.0.0.0/8"
	// +listType=set
	CIDRs []string `json:"cidrs"`
}
