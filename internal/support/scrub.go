package support

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// removed stands where a secret may have been.
const removed = "[removed]"

// patterns find secrets by their form: keys of AWS, tokens, keys in PEM, passwords in URLs and in
// assignments.
var patterns = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE REQUEST)-----[\s\S]*?(?:-----END [A-Z ]*-----|$)`),
	regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,}\b`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`),
	regexp.MustCompile(`(?i)\b(?:bearer|basic|aws4-hmac-sha256)\s+\S[^"\n]*`),
	regexp.MustCompile(`(?i)\bx-(?:amz|goog)-(?:signature|credential|security-token)=[^&\s"]+`),
	// The signatures of URLs that grant access to any holder: SAS of Azure, and CloudFront's.
	regexp.MustCompile(`(?i)(?:[?&;]|%26|\\u0026|&amp;)(?:sig|signature)=[^&\s"\\]+`),
}

var (
	// userinfo is a name and password in a URL.
	userinfo = regexp.MustCompile(`(://)[^/\s"@]+@`)
	// assigned is a value that is said to be secret: name=value, name: value, "name":"value", and
	// the same quoted once more.
	assigned = regexp.MustCompile(`(?i)(\\*"?[a-z0-9_.-]*(?:` + secretWords + `)[a-z0-9_.-]*\\*"?\s*[:=]\s*)(\\*"[^"]*"|[^\s,;}"]+)`)
	// secretName is a key whose value is secret.
	secretName = regexp.MustCompile(`(?i)(?:` + secretWords + `)`)
)

const secretWords = `passw|secret|token|credential|private.?key|access.?key|account.?key|api.?key|client.?key|connection.?string`

// scrubber removes secrets from texts.
type scrubber struct {
	// known are values that are known to be secret, and are removed wherever they stand.
	known *strings.Replacer
}

// newScrubber knows these values, and those that stand in them. Short ones would tear other words
// apart, so they are left to the patterns.
func newScrubber(values []string) *scrubber {
	const shortest = 8
	var pairs []string
	for _, v := range values {
		if len(v) >= shortest {
			pairs = append(pairs, v, removed)
		}
	}
	return &scrubber{strings.NewReplacer(pairs...)}
}

// text removes secrets from a text.
func (s *scrubber) text(t string) string {
	t = s.known.Replace(t)
	for _, p := range patterns {
		t = p.ReplaceAllLiteralString(t, removed)
	}
	t = userinfo.ReplaceAllString(t, "${1}"+removed+"@")
	return assigned.ReplaceAllString(t, "${1}"+removed)
}

// keptAnnotations is how the names of annotations begin that are kept. Others may hold anything,
// such as whole objects.
var keptAnnotations = []string{"nephele.io/", "deployment.kubernetes.io/"}

// value removes secrets from a value of JSON, which it may change. Of objects of Kubernetes it
// leaves out what no one needs.
func (s *scrubber) value(v any) any { return (&unpacker{s, maxPacked}).value(v) }

// unpacker removes secrets from one value.
type unpacker struct {
	*scrubber
	// left is how many bytes may still be unpacked.
	left int
}

func (s *unpacker) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.packed(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
		if len(v) == 0 {
			return v
		}
		// Lists of names and values, as clouds and containers have them.
		for _, e := range v {
			if m, ok := e.(map[string]any); ok {
				for _, key := range []string{"key", "name", "Key"} {
					if name, _ := m[key].(string); secretName.MatchString(name) {
						for _, field := range []string{"value", "Value"} {
							if _, has := m[field]; has {
								m[field] = removed
							}
						}
					}
				}
			}
		}
		return v
	case map[string]any:
		delete(v, "managedFields")
		if a, ok := v["annotations"].(map[string]any); ok {
			for key := range a {
				if !hasPrefix(key, keptAnnotations) {
					delete(a, key)
				}
			}
		}
		for key, inner := range v {
			if text, isText := inner.(string); isText && secretName.MatchString(key) && text != "" {
				v[key] = removed
				continue
			}
			v[key] = s.value(inner)
		}
		return v
	}
	return v
}

// maxPacked bounds what is unpacked of one value, with what is packed within what was unpacked.
const maxPacked = 4 << 20

// packed removes secrets from a text, also where it is packed (gzip in base64, as long policies are
// in their revisions): it is given unpacked then. What cannot be looked into is left out.
func (s *unpacker) packed(text string) string {
	if !strings.HasPrefix(text, "H4sI") { // as gzip begins
		return s.text(text)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return s.text(text)
	}
	plain, err := io.ReadAll(io.LimitReader(z, int64(s.left)+1))
	if s.left -= len(plain); err != nil || s.left < 0 {
		s.left = max(s.left, 0)
		return removed
	}
	var content any
	if json.Unmarshal(plain, &content) != nil {
		return s.text(string(plain))
	}
	out, err := json.Marshal(s.value(content))
	if err != nil {
		return removed
	}
	return string(out)
}

func hasPrefix(text string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}
