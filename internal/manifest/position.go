package manifest

import (
	"fmt"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Position is where an object or a field stands.
type Position struct {
	// File as given or found; "-" is the standard input.
	File string
	// Line counts from 1.
	Line int
}

// String returns "file:line".
func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// node returns the YAML node at a path like spec.ingress[0].from[1].ipBlock.cidr, or the nearest
// one above it.
func node(root *yamlv3.Node, path string) *yamlv3.Node {
	at := root
	for at != nil && at.Kind == yamlv3.DocumentNode && len(at.Content) > 0 {
		at = at.Content[0]
	}
	for _, segment := range segments(path) {
		next := child(at, segment)
		if next == nil {
			break
		}
		at = next
	}
	return at
}

// segments splits a field path. Keys in brackets and quotes, such as labels["a.b"], are one
// segment.
func segments(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return append(out, strings.Trim(path[1:], `"`))
			}
			out = append(out, strings.Trim(path[1:end], `"`))
			path = path[end+1:]
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out = append(out, path[:end])
			path = path[end:]
		}
	}
	return out
}

func child(at *yamlv3.Node, segment string) *yamlv3.Node {
	switch at.Kind {
	case yamlv3.AliasNode:
		return child(at.Alias, segment)
	case yamlv3.SequenceNode:
		i, err := strconv.Atoi(segment)
		if err != nil || i < 0 || i >= len(at.Content) {
			return nil
		}
		return at.Content[i]
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == segment {
				// A nested block begins on the line below its key: name the line of the key.
				value := *at.Content[i+1]
				value.Line = at.Content[i].Line
				return &value
			}
		}
	}
	return nil
}
