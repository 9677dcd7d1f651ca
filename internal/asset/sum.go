package asset

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// ParseSum finds a file's SHA-256 in the text of a checksum file and returns it in
// lower case.
//
// In the Bare form the text is the sum alone. Some publishers add the file's name,
// which must then be the right one. In the Listed form the line of that file
// counts, with or without leading folders and sha256sum's "*" for binary. Different
// sums for one file are an error.
func ParseSum(text string, form SumForm, file string) (string, error) {
	found := ""
	text = withoutSignature(text)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		sum := strings.ToLower(fields[0])
		switch {
		case len(fields) > 2 || !IsSum(sum):
			return "", fmt.Errorf("the line %.100q is not a SHA-256", strings.TrimSpace(line))
		case len(fields) == 1 && form != Bare:
			return "", fmt.Errorf("the line %.100q names no file", strings.TrimSpace(line))
		case len(fields) == 2 && path.Base(strings.TrimPrefix(fields[1], "*")) != file:
			continue
		case found != "" && found != sum:
			return "", fmt.Errorf("the file has two different sums of %s", file)
		}
		found = sum
	}
	if found == "" && strings.TrimSpace(text) == "" {
		return "", errors.New("the file is empty")
	}
	if found == "" {
		return "", fmt.Errorf("the file does not list %s", file)
	}
	return found, nil
}

// withoutSignature removes the signature from a clear-signed text, the form in
// which runc publishes its sums (RFC 9580, section 7). The signature is not
// checked: that would need a trusted key.
func withoutSignature(text string) string {
	const begin, end = "-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----"
	plain := strings.ReplaceAll(text, "\r\n", "\n")
	rest, signed := strings.CutPrefix(plain, begin)
	if !signed {
		return text
	}
	_, rest, _ = strings.Cut(rest, "\n\n") // its header names the hash
	rest, _, _ = strings.Cut(rest, end)
	return rest
}

// IsSum says whether s is a SHA-256 in lower-case hexadecimal.
func IsSum(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
