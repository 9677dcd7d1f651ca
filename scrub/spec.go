// Package scrub is the table of what a node image must not carry, and what
// takes it away: rules, their planner, and the audit that asks what is left.
package scrub

import (
	"fmt"
	"slices"
	"strings"
)

// Spec says which rules run. The zero value runs all of them.
type Spec struct {
	// Distro overrides what os-release(5) says, as in a provision.
	Distro string `json:"distro,omitempty"`
	// Only runs these rules or groups and no others.
	Only []string `json:"only,omitempty"`
	// Skip leaves these rules or groups out.
	Skip []string `json:"skip,omitempty"`
	// Own are rules that run besides; see ParseRules.
	Own []OwnRule `json:"own,omitempty"`
	// Hash puts the SHA-256 of every removed file into the report.
	Hash bool `json:"hash,omitempty"`
	// WipeFreeSpace discards or overwrites the space that removed files took,
	// because they stay readable in a disk's snapshot otherwise.
	WipeFreeSpace bool `json:"wipe_free_space,omitempty"`
	// Audit says what the audit that ends a scrub does to the scrub's result;
	// empty is AuditFails. An audit by itself has no use for it.
	Audit Audit `json:"audit,omitempty"`
}

// Audit is what follows from the audit that ends a scrub.
type Audit string

// The audits.
const (
	AuditFails Audit = "fail" // findings fail the scrub
	AuditWarns Audit = "warn" // findings are reported, and the scrub passes
	AuditOff   Audit = "off"  // there is no audit
)

// Audits are the values of Spec.Audit, the default first.
func Audits() []string {
	return []string{string(AuditFails), string(AuditWarns), string(AuditOff)}
}

// check refuses an unknown audit.
func (a Audit) check() error {
	if a != "" && !slices.Contains(Audits(), string(a)) {
		return fmt.Errorf("audit: %q is not known; known: %s", a, strings.Join(Audits(), ", "))
	}
	return nil
}
