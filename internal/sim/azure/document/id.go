package document

import "strings"

// ID is a resource id taken apart. Ids are compared without regard to case; each part keeps the
// case in which it was written.
type ID struct {
	Subscription string
	Group        string
	// Provider is the namespace, as in Microsoft.Network; Types and Names are the types below it
	// and the names, outermost first.
	Provider string
	Types    []string
	Names    []string
}

// ParseID reads the id of a subscription, a resource group or a resource, whatever the case of its
// words.
func ParseID(s string) (ID, bool) {
	parts := strings.Split(strings.Trim(s, "/"), "/")
	var id ID
	if len(parts) < 2 || !strings.EqualFold(parts[0], "subscriptions") || parts[1] == "" {
		return id, false
	}
	id.Subscription, parts = parts[1], parts[2:]
	if len(parts) == 0 {
		return id, true
	}
	if strings.EqualFold(parts[0], "resourceGroups") {
		if len(parts) < 2 || parts[1] == "" {
			return id, false
		}
		id.Group, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return id, true
	}
	if len(parts) < 4 || len(parts)%2 != 0 || !strings.EqualFold(parts[0], "providers") {
		return id, false
	}
	id.Provider = parts[1]
	for i := 2; i < len(parts); i += 2 {
		if parts[i] == "" || parts[i+1] == "" {
			return id, false
		}
		id.Types, id.Names = append(id.Types, parts[i]), append(id.Names, parts[i+1])
	}
	return id, true
}

// String is the id in the case of its parts and the usual case of the fixed words.
func (id ID) String() string {
	var b strings.Builder
	b.WriteString("/subscriptions/" + id.Subscription)
	if id.Group != "" {
		b.WriteString("/resourceGroups/" + id.Group)
	}
	if id.Provider != "" {
		b.WriteString("/providers/" + id.Provider)
	}
	for i := range id.Types {
		b.WriteString("/" + id.Types[i] + "/" + id.Names[i])
	}
	return b.String()
}

// Key is the id in lower case: what ids are compared by.
func (id ID) Key() string { return strings.ToLower(id.String()) }

// Key is the same for an id as it was written; an id that cannot be read is compared as it is.
func Key(s string) string {
	if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && !strings.HasSuffix(s, "/") {
		return strings.ToLower(s) // as an id is written, if it is one
	}
	if id, ok := ParseID(s); ok {
		return id.Key()
	}
	return strings.ToLower(s)
}

// Type is the full type in lower case, as in microsoft.network/networkinterfaces; empty for a
// subscription or group.
func (id ID) Type() string {
	if id.Provider == "" {
		return ""
	}
	return strings.ToLower(id.Provider + "/" + strings.Join(id.Types, "/"))
}

// Name is the innermost name.
func (id ID) Name() string {
	if len(id.Names) == 0 {
		return ""
	}
	return id.Names[len(id.Names)-1]
}

// Parent is the id without its innermost type and name.
func (id ID) Parent() ID {
	n := len(id.Types) - 1
	id.Types, id.Names = id.Types[:n:n], id.Names[:n:n]
	return id
}

// Child is the id of something within the resource.
func (id ID) Child(kind, name string) ID {
	n := len(id.Types)
	id.Types, id.Names = append(id.Types[:n:n], kind), append(id.Names[:n:n], name)
	return id
}

// GroupID is the id of the resource group.
func (id ID) GroupID() ID { return ID{Subscription: id.Subscription, Group: id.Group} }

func (id ID) typeAndName() string {
	var b strings.Builder
	b.WriteString(id.Provider)
	for i := range id.Types {
		b.WriteString("/" + id.Types[i] + "/" + id.Names[i])
	}
	return b.String()
}

// Within reports whether the resource is the scope or lies below it.
func Within(resource, scope string) bool {
	resource, scope = strings.ToLower(resource), strings.TrimSuffix(strings.ToLower(scope), "/")
	return scope == "" || resource == scope || strings.HasPrefix(resource, scope+"/")
}
