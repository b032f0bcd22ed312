package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

// longestName is how much of an object's name stands in that of a revision.
const longestName = 200

// revisionName is the name of a revision: annp-db-from-app-7.
func (k kind) revisionName(o v1alpha1.RevisedObject, number int64) client.ObjectKey {
	name := o.Name
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:longestName], ".-") + "-" + hex.EncodeToString(sum[:4])
	}
	return client.ObjectKey{Namespace: o.Namespace, Name: k.Revised + "-" + name + "-" + strconv.FormatInt(number, 10)}
}

// lastManager is the field manager that changed an object last, what others than its author write
// of it apart.
func lastManager(o client.Object) string {
	best := ""
	var when int64
	for _, m := range o.GetManagedFields() {
		if m.Subresource != "" || m.Time == nil {
			continue
		}
		if t := m.Time.UnixNano(); best == "" || t >= when {
			best, when = m.Manager, t
		}
	}
	if len(best) > 128 {
		best = best[:128]
	}
	return cut(best)
}
