package main

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// flagsOf are the flags for a spec's fields, where they are not called the same.
var flagsOf = map[string]string{
	"versions": "asset-version", "checksums": "asset-checksum", "packages": "package", "package_versions": "package-version",
	"sysctls": "sysctl", "ca_certificates": "ca-certificate", "kernel_arguments": "kernel-argument", "images": "image",
}

// notWords are fields of one word that English does not have.
var notWords = []string{"distro", "efa", "fips", "sbom", "sysctls"}

// phrases are what errors advise to somebody who writes HCL, and what that means
// with flags.
var phrases = strings.NewReplacer(
	"correct the field", "correct the flag",
	"only and skip leave", "--only and --skip leave",
	"leave packages empty", "leave --package out",
	"let the communicator's user use sudo without a password", "run it as root",
	`give the certificate's content, for example with file("ca.pem")`, "name the file of a certificate",
)

// settingForm is a field as errors write it: alone, with a key, or with a value
// as in HCL or behind it.
var settingForm = regexp.MustCompile(`(?m)(^|[ \t(])([a-z]+(?:_[a-z]+)*)(\["[^"\n]*"\])?(?: = (true|"[^"\n]*"))?( "[^"\n]*")?`)

// words writes errors for somebody who used flags. The packages below the
// surfaces name a spec's fields, as HCL and JSON have them.
type words struct {
	flags *pflag.FlagSet
	// first says that errors begin with the field that they are about. Those of
	// steps and rules begin with the step's or rule's name.
	first bool
}

// text replaces fields by flags: those that begin a line or have a key or a
// value, and names that are no words of English.
func (w words) text(text string) string {
	var b strings.Builder
	text, done := phrases.Replace(text), 0
	for _, at := range settingForm.FindAllStringSubmatchIndex(text, -1) {
		field := text[at[4]:at[5]]
		flag := w.flags.Lookup(cmp.Or(flagsOf[field], strings.ReplaceAll(field, "_", "-")))
		beginsLine := at[2] == at[3]
		isName := at[6] >= 0 || at[8] >= 0 || at[10] >= 0 || strings.Contains(field, "_") || slices.Contains(notWords, field) || beginsLine && w.first
		if flag == nil || !isName || !endsThere(text[at[1]:]) {
			continue
		}
		b.WriteString(text[done:at[4]] + "--" + flag.Name)
		done = at[5]
		if at[6] < 0 && at[8] >= 0 { // a value, as it is typed
			if value := strings.Trim(text[at[8]:at[9]], `"`); value != "true" {
				b.WriteString(" " + value)
			}
			done = at[9]
		}
	}
	return b.String() + text[done:]
}

// endsThere says whether a name before rest is whole, and no part of a path.
func endsThere(rest string) bool {
	return rest == "" || !strings.ContainsRune("_-/=.", rune(rest[0])) || strings.HasPrefix(rest, ". ") || rest == "."
}

// err is text for an error.
func (w words) err(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(w.text(err.Error()))
}

// report writes the errors of a report.
func (w words) report(r plan.Report) plan.Report {
	w.first = len(r.Plan)+len(r.Outcomes) == 0 // it ended before any step or rule
	r.Error = w.text(r.Error)
	w.first = false
	for i := range r.Plan {
		r.Plan[i].Error = w.text(r.Plan[i].Error)
	}
	for i := range r.Outcomes {
		r.Outcomes[i].Error = w.text(r.Outcomes[i].Error)
	}
	return r
}
