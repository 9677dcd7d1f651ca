package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

// sure says how sure a cause is, and why.
func sure(r diagnose.Rule) string {
	level, why := r.Sure()
	return fmt.Sprintf("`%s`: %s.", level, why)
}

var plainWord = regexp.MustCompile(`^[a-z]+[ ,]`)

// sentences makes sentences of the parts between semicolons.
func sentences(text string) string {
	parts := strings.Split(text, "; ")
	for i, part := range parts {
		if plainWord.MatchString(part) { // and not a name such as kube-proxy
			parts[i] = string(unicode.ToUpper(rune(part[0]))) + part[1:]
		}
	}
	return strings.Join(parts, ". ") + "."
}
