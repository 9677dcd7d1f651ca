package diagnose

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// The results of a search.
const (
	// Found means that the logs show a known cause.
	Found = "found"
	// Joined means that they show no known cause, and that the node joined.
	Joined = "joined"
	// Unknown means that they show neither.
	Unknown = "unknown"
)

// Result is what the logs show.
func (r Report) Result() string {
	switch {
	case len(r.Findings) > 0:
		return Found
	case len(r.Joined) > 0:
		return Joined
	default:
		return Unknown
	}
}

// Collect are the commands that collect the logs that a search needs. The first two
// run on the node, the last one elsewhere.
func (r Report) Collect() []string {
	return []string{
		"journalctl --boot --no-pager --output short-precise > journal.log",
		"eksnode diagnose journal.log /var/log/cloud-init-output.log",
		"eksnode diagnose INSTANCE --region REGION",
	}
}

// Print writes a report for a person.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	switch r.Result() {
	case Found:
		printFindings(&b, r.Findings)
		if first := r.Unexplained(); first != nil {
			b.WriteString("\n")
			first.print(&b)
		}
	case Joined:
		b.WriteString("joined: the node joined its cluster, and no known cause was found\n")
		printList(&b, r.Joined)
		if len(r.Errors) > 0 {
			b.WriteString("lines that look like errors:\n")
			printList(&b, r.Errors)
		}
	default:
		b.WriteString("unknown: no known cause was found\n")
		r.printUnknown(&b)
	}
	if len(r.Findings) == 0 && len(r.PassedOver) > 0 {
		names := r.PassedOver[:min(len(r.PassedOver), errorsMost)]
		fmt.Fprintf(&b, "not read, because they are no logs (%d files): %s\n", len(r.PassedOver),
			strings.Join(names, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) printUnknown(b *strings.Builder) {
	if r.First == nil {
		fmt.Fprintf(b, "none of the %d lines looks like an error\n", r.Lines)
	} else {
		r.First.print(b)
		b.WriteString("the first lines that look like errors:\n")
		printList(b, r.Errors)
	}
	b.WriteString("collect the whole logs: the first two commands on the node, the last one elsewhere\n")
	printList(b, r.Collect())
}

// Unexplained is the first failure if the log shows no cause for certain and the line is
// no evidence of one, or nil.
func (r Report) Unexplained() *Failure {
	if r.First == nil || r.Result() == Joined || slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Certainty == Certain || slices.ContainsFunc(f.Evidence, func(line string) bool {
			return strings.HasPrefix(r.First.Line, line)
		})
	}) {
		return nil
	}
	return r.First
}

func (f *Failure) print(b *strings.Builder) {
	fmt.Fprintf(b, "the first failure, of %s", f.Unit)
	if fact := f.Fact.String(); fact != "" {
		fmt.Fprintf(b, " (%s)", fact)
	}
	fmt.Fprintf(b, ":\n  %s\n", f.Line)
	if len(f.Context) > 0 {
		b.WriteString("lines around it:\n")
		printList(b, f.Context)
	}
}

func printList(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

func printFindings(b *strings.Builder, list []Finding) {
	for i, f := range list {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s: %s\n", f.Rule.ID, f.Rule.Cause)
		if f.Follows != "" {
			fmt.Fprintf(b, "  consequence of %s\n", f.Follows)
		}
		printList(b, f.Evidence)
		if f.Count > len(f.Evidence) {
			fmt.Fprintf(b, "  and %d more\n", f.Count-len(f.Evidence))
		}
		fmt.Fprintf(b, "  %s: %s\n", f.Certainty, f.Why)
		fmt.Fprintf(b, "  remedy: %s\n", f.Rule.Remedy)
		for _, command := range f.Rule.Commands {
			fmt.Fprintf(b, "    %s\n", command)
		}
		fmt.Fprintf(b, "  page: %s\n", f.Rule.Page())
	}
}
