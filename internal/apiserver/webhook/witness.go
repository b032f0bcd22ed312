package webhook

import (
	admissionv1 "k8s.io/api/admission/v1"
)

// Witness gets the users of admitted changes. It is called before the answer is given, and must not
// make it wait. Any caller of the webhooks can reach it, so give one only where no caller but
// kube-apiserver is answered.
type Witness interface {
	// Admitted reports an object in JSON, as it is about to be stored unless another webhook
	// refuses it, and the name of the user.
	Admitted(group, resource string, object []byte, user string)
	// Deleted tells the same of an object that is about to be deleted.
	Deleted(group, resource string, object []byte, user string)
}

// saw tells the witness of a change that is let pass: of what is to be stored, so by hooks that
// come last, and not of trials.
func (h *handler) saw(in *admissionv1.AdmissionRequest) {
	if h.witness == nil || h.hook.Mutating || in.DryRun != nil && *in.DryRun {
		return
	}
	if in.Operation == admissionv1.Delete {
		if h.hook.Witness { // asked of all kinds; others may be asked, too
			h.witness.Deleted(in.Resource.Group, in.Resource.Resource, in.OldObject.Raw, in.UserInfo.Username)
		}
		return
	}
	h.witness.Admitted(in.Resource.Group, in.Resource.Resource, in.Object.Raw, in.UserInfo.Username)
}
