package v1alpha1

// AnnotationConfirm on a CloudProviderAccount lets the change go on that the condition Braked
// names. Its value is the hash that the condition tells. It is removed when it has served its
// purpose, and when there is nothing that it confirms.
const AnnotationConfirm = "nephele.io/confirm"

// AnnotationForce on a CloudProviderAccount lets interfaces change for which there is no order that
// keeps their flows, and closes first what is to be closed. Its value is "HASH by USER": the hash
// that `nephele plan` prints with the flows that are cut meanwhile, and the user that sets it.
// Admission checks the user, and the record of changes has it. The hash of another plan does
// nothing. The annotation is removed when nothing is blocked any more.
const AnnotationForce = "nephele.io/force"

// ForceBy stands between the hash and the user in AnnotationForce.
const ForceBy = " by "

// ConditionBraked (account): True while a change waits for a confirmation because it is larger than
// spec.brake lets pass, False while a confirmed one is on its way.
const ConditionBraked = "Braked"

const (
	// ReasonConfirmationNeeded: what is to be done is known, and waits for the annotation
	// AnnotationConfirm on the account.
	ReasonConfirmationNeeded = "ConfirmationNeeded"
	// ReasonConfirmed: the change was confirmed and is on its way.
	ReasonConfirmed = "Confirmed"
)

// Defaults of Brake.
const (
	DefaultBrakePercent    int32 = 50
	DefaultBrakeInterfaces int32 = 20
)

// Brake says how much of an account may change at once without a confirmation. A change waits if it
// concerns at least so many network interfaces and more than the share of them. Break-glass never
// waits.
type Brake struct {
	// Percent is the share that passes: of the interfaces under control those that would be given
	// back, of all interfaces of virtual machines those that would be taken under control. With 100
	// nothing ever waits.
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent *int32 `json:"percent,omitempty"`
	// Interfaces is how many interfaces a change concerns at least to wait.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +optional
	Interfaces *int32 `json:"interfaces,omitempty"`
}
