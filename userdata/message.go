package userdata

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// message is a MIME message with the parts that have content.
func message(parts ...Part) []byte {
	boundary := "EKSNODE"
	for n := 1; contains(parts, "--"+boundary); n++ {
		boundary = fmt.Sprintf("EKSNODE%d", n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&b, "--%s\n%s", boundary, p.encode())
	}
	fmt.Fprintf(&b, "--%s--\n", boundary)
	return []byte(b.String())
}

func contains(parts []Part, text string) bool {
	for _, p := range parts {
		if strings.Contains(p.Content, text) {
			return true
		}
	}
	return false
}

// encode is the part with its header. cloud-init garbles characters that are not
// ASCII, unless they are in base64; Amazon's nodeadm does not.
func (p Part) encode() string {
	text := strings.TrimRight(p.Content, "\n") + "\n"
	ascii := strings.IndexFunc(text, func(r rune) bool { return r > '~' }) < 0
	if ascii || strings.HasPrefix(p.ContentType, "application/") {
		return fmt.Sprintf("Content-Type: %s\n\n%s", p.ContentType, text)
	}
	if !strings.Contains(p.ContentType, "charset") {
		p.ContentType += `; charset="utf-8"`
	}
	var lines strings.Builder
	for packed := base64.StdEncoding.EncodeToString([]byte(text)); packed != ""; {
		n := min(76, len(packed))
		lines.WriteString(packed[:n] + "\n")
		packed = packed[n:]
	}
	return fmt.Sprintf("Content-Type: %s\nContent-Transfer-Encoding: base64\n\n%s", p.ContentType, lines.String())
}

// scripts are shell scripts as parts of their own.
func scripts(texts []string) []Part {
	var parts []Part
	for _, text := range texts {
		if !strings.HasPrefix(text, "#!") {
			text = "#!/bin/bash\n" + text
		}
		parts = append(parts, Part{ContentType: shellMedia, Content: text})
	}
	return parts
}

// inlined separates the scripts that are parts of their own from those without
// #!, which are lines of another script.
func inlined(texts []string) (lines string, others []string) {
	for _, text := range texts {
		if strings.HasPrefix(text, "#!") {
			others = append(others, text)
			continue
		}
		lines += strings.TrimRight(text, "\n") + "\n"
	}
	return lines, others
}
