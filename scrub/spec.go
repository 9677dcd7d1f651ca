// Package scrub is the table of what a node image must not carry, and what
// takes it away: rules, their planner, and the audit that asks what is left.
package scrub

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
}
