package realize

import (
	"crypto/rand"
	"regexp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// signatureOnAzure is the tag with the signature of a record, as documents show it.
var signatureOnAzure = regexp.MustCompile(`"nephele\.io_former-signature":"[^"]*"`)

// TestAzureKeyOfRecordsChanges: another key signs all records on Azure anew, while the controller
// runs or by the next one, and changes nothing else. Then the former key is not needed any more:
// every interface is given back what it had.
func TestAzureKeyOfRecordsChanges(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"at work": false, "between two processes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{})
			before := l.documents()
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			split := func() (signatures, rest map[string]string) {
				signatures, rest = map[string]string{}, map[string]string{}
				for id, text := range l.documents() {
					if s := signatureOnAzure.FindString(text); s != "" {
						signatures[id] = s
					}
					rest[id] = signatureOnAzure.ReplaceAllString(text, "")
				}
				return signatures, rest
			}
			signatures, held := split()
			if len(signatures) < 2 {
				t.Fatalf("%d records are signed", len(signatures))
			}
			if restarts {
				l.halt()
			}
			place, former := recordkey.Place(), ""
			change := func(next func(keyring.Ring) (keyring.Ring, error)) {
				t.Helper()
				if err := place.Change(t.Context(), l.cluster, "kube-system", next); err != nil {
					t.Fatal(err)
				}
			}
			change(func(r keyring.Ring) (keyring.Ring, error) {
				former = r[0].ID
				next, err := place.Make(rand.Reader, l.options.Clock.Now())
				if err != nil {
					return nil, err
				}
				return r.Rotated(next)
			})
			if restarts {
				l.start()
			} else {
				l.options.Clock.(warp).Step(2 * time.Minute)
				l.realizer.Reconsider()
			}
			l.until("all is signed anew", func() bool {
				now, _ := split()
				for id, was := range signatures {
					if now[id] == "" || now[id] == was {
						return false
					}
				}
				return len(now) == len(signatures) && l.records().Outdated == 0
			})
			if _, now := split(); gocmp.Diff(held, now) != "" {
				t.Errorf("more than signatures has changed (-before +after):\n%s", gocmp.Diff(held, now))
			}
			if d := compare(l.actual(), l.wanted()); d != "" {
				t.Error(d)
			}
			l.halt()
			change(func(r keyring.Ring) (keyring.Ring, error) { return r.Without(former) })
			l.start()
			l.engine.DeletePolicy(webIn().UID)
			l.publish()
			l.until("all is given back", func() bool { return gocmp.Equal(l.documents(), before) })
			if n := len(l.records().Unproven); n > 0 {
				t.Errorf("%d records are unproven", n)
			}
		})
	}
}
