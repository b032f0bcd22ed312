package v1alpha1

// Dependents says what becomes of interfaces that depend on a security group which others give up.
// +kubebuilder:validation:Enum=Refuse;Follow;Cut
type Dependents string

// The answers.
const (
	// DependentsRefuse refuses to take over a virtual machine if that would cut their flows.
	DependentsRefuse Dependents = "Refuse"
	// DependentsFollow adds a rule for the virtual machine beside the one that names the group. The
	// group that holds that rule must have the tag nephele.io/follow; without it the answer is
	// Refuse.
	DependentsFollow Dependents = "Follow"
	// DependentsCut takes the virtual machine over, and says what flows are lost.
	DependentsCut Dependents = "Cut"
)

// DependentGroup is the answer for one security group.
type DependentGroup struct {
	// Group is the id of the group whose rules name others, for example sg-0123456789abcdef0.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Group string `json:"group"`
	// Dependents is the answer.
	Dependents Dependents `json:"dependents"`
}
