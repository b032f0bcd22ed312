// Package support makes a bundle for the person that is asked for help: objects, statuses, events,
// logs, metrics and a plan, without secrets.
//
// It owns what goes into a bundle and what is taken out. It promises that no Secret goes into it;
// that the values of the Secrets that accounts name, where the caller may read them, and everything
// that looks like a key, token or password are removed wherever they are; that annotations of
// others are left out; and that a bundle, unpacked, stays below its bound. The bundle lists what is
// left out. Names and addresses of VMs stay: look before you send.
//
// Concurrency: Write reads one thing after the other; several may run beside one another.
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/kinds"
)

const (
	// page is how many objects are read at a time.
	page = 500
	// maxOfKind bounds the objects of one kind, and maxOfFile what is kept of one text: its end.
	maxOfKind = 20_000
	maxOfFile = 4 << 20
)

// Source is a text that goes into the bundle.
type Source struct {
	// Name is the name of the file.
	Name string
	// Read returns it; what is read is closed.
	Read func(ctx context.Context) (io.ReadCloser, error)
	// Head keeps the beginning of a text that is too large, up to the end of a line, instead of its
	// end.
	Head bool
}

// Options say what goes in.
type Options struct {
	Client client.Reader
	// Sources are logs, metrics, a plan, versions. They may be large: a part of each is kept.
	Sources []Source
	// MaxBytes bounds the bundle, unpacked.
	MaxBytes int64
	Now      func() time.Time
}

// listed are the kinds that go in. Secrets are not among them, and may not be.
func listed() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, k := range kinds.Of(kinds.Bundled) {
		out = append(out, k.GroupVersionKind)
	}
	// What the API server is told, and what it tells.
	for _, k := range []struct {
		group, version string
		kinds          []string
	}{
		{"coordination.k8s.io", "v1", []string{"Lease"}},
		{"admissionregistration.k8s.io", "v1", []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}},
		{"apiregistration.k8s.io", "v1", []string{"APIService"}},
		{"events.k8s.io", "v1", []string{"Event"}},
	} {
		for _, name := range k.kinds {
			out = append(out, schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: name})
		}
	}
	return out
}

// Contents says what is in a bundle; it is its file contents.json.
type Contents struct {
	Made  time.Time `json:"made"`
	Files []string  `json:"files"`
	// LeftOut says of what is missing why.
	LeftOut []string `json:"leftOut"`
}

// Write writes a bundle, a tar.gz.
func Write(ctx context.Context, w io.Writer, o Options) (*Contents, error) {
	zip := gzip.NewWriter(w)
	b := &bundle{Options: o, tar: tar.NewWriter(zip), left: o.MaxBytes, out: &Contents{Made: o.Now().UTC(), Files: []string{}, LeftOut: []string{}}}
	b.scrub = newScrubber(b.secrets(ctx))
	for _, k := range listed() {
		if err := b.objects(ctx, k); err != nil {
			return nil, err
		}
	}
	for _, s := range o.Sources {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := b.source(ctx, s); err != nil {
			return nil, err
		}
	}
	contents, err := json.MarshalIndent(b.out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the bundle: %w", err)
	}
	b.left += int64(len(contents)) // there is always room for this
	if err := b.file("contents.json", contents); err != nil {
		return nil, err
	}
	for _, c := range []io.Closer{b.tar, zip} {
		if err := c.Close(); err != nil {
			return nil, fmt.Errorf("write the bundle: %w", err)
		}
	}
	return b.out, ctx.Err()
}

type bundle struct {
	Options
	tar   *tar.Writer
	left  int64
	scrub *scrubber
	out   *Contents
}

// secrets are the values of the Secrets that accounts name, as far as the caller may read them, and
// the strings within those that are JSON.
func (b *bundle) secrets(ctx context.Context) []string {
	var accounts cloudv1.CloudProviderAccountList
	if err := b.Client.List(ctx, &accounts); err != nil {
		return nil // the patterns remain
	}
	var out []string
	for i := range accounts.Items {
		spec := accounts.Items[i].Spec
		var ref *cloudv1.SecretReference
		switch {
		case spec.AWSConfig != nil:
			ref = spec.AWSConfig.SecretRef
		case spec.AzureConfig != nil:
			ref = spec.AzureConfig.SecretRef
		}
		var secret corev1.Secret
		if ref == nil || b.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &secret) != nil {
			continue
		}
		for _, value := range secret.Data {
			out = append(out, string(value))
			var fields map[string]any
			if json.Unmarshal(value, &fields) == nil {
				for _, f := range fields {
					if text, ok := f.(string); ok {
						out = append(out, text)
					}
				}
			}
		}
	}
	return out
}

// objects writes all objects of a kind, one JSON value a line.
func (b *bundle) objects(ctx context.Context, k schema.GroupVersionKind) error {
	name := "objects/" + strings.ToLower(k.Kind) + "." + k.Group + ".jsonl"
	name = strings.ReplaceAll(name, "..", ".")
	var text bytes.Buffer
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	count := 0
	for next := ""; ; {
		if err := b.Client.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			b.leave(name, err.Error())
			return nil
		}
		for i := range list.Items {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			line, err := json.Marshal(b.scrub.value(list.Items[i].Object))
			if err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			if count++; count > maxOfKind || int64(text.Len()+len(line)) >= b.left {
				b.leave(name, "the bundle would become too large; the first objects are there")
				return b.file(name, text.Bytes())
			}
			text.Write(line)
			text.WriteByte('\n')
		}
		if next = list.GetContinue(); next == "" {
			break
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return b.file(name, text.Bytes())
}

// source writes the end of a text.
func (b *bundle) source(ctx context.Context, s Source) error {
	r, err := s.Read(ctx)
	if err != nil {
		b.leave(s.Name, err.Error())
		return nil
	}
	defer r.Close()
	most := int(min(maxOfFile, max(b.left-1, 0)))
	if s.Head {
		return b.head(s.Name, r, most)
	}
	end, whole, err := tail(r, most)
	if err != nil {
		b.leave(s.Name, err.Error())
	}
	if !whole {
		b.leave(s.Name, "its beginning")
		// The first line may be the end of something whose beginning says that it is secret.
		if at := bytes.IndexByte(end, '\n'); at >= 0 {
			end = end[at+1:]
		}
	}
	return b.file(s.Name, []byte(b.scrub.text(string(end))))
}

// head writes the beginning of a text, as whole lines.
func (b *bundle) head(name string, r io.Reader, most int) error {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		b.leave(name, err.Error())
	}
	if len(text) > most {
		b.leave(name, "its end")
		text = text[:bytes.LastIndexByte(text[:most], '\n')+1]
	}
	return b.file(name, []byte(b.scrub.text(string(text))))
}

// tail returns the last bytes of a text, and whether they are all.
func tail(r io.Reader, most int) (end []byte, whole bool, err error) {
	buffer := make([]byte, 32<<10)
	whole = true
	for {
		n, err := r.Read(buffer)
		end = append(end, buffer[:n]...)
		if len(end) > 2*most+len(buffer) {
			end, whole = append([]byte(nil), end[len(end)-most:]...), false
		}
		if err != nil {
			if len(end) > most {
				end, whole = end[len(end)-most:], false
			}
			if err == io.EOF {
				err = nil
			}
			return end, whole, err
		}
	}
}

func (b *bundle) leave(name, why string) {
	b.out.LeftOut = append(b.out.LeftOut, b.scrub.text(name+": "+why))
}

func (b *bundle) file(name string, text []byte) error {
	if int64(len(text)) > b.left {
		b.leave(name, "the bundle would become too large")
		return nil
	}
	b.left -= int64(len(text))
	b.out.Files = append(b.out.Files, name)
	err := b.tar.WriteHeader(&tar.Header{Name: "nephele-support/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.out.Made, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = b.tar.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
