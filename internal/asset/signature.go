package asset

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// signed returns the content of a signed text. The key, as gpg --armor exports it, must
// have signed it. Without a signature, the text is clear-signed.
func signed(ctx context.Context, text, signature, key string) (string, error) {
	const program = "gpgv"
	if _, err := exec.LookPath(program); err != nil {
		return "", errors.New("verifying the signature needs gpgv: install it (Debian: gpgv, Fedora: gnupg2)")
	}
	folder, err := os.MkdirTemp("", "eksnode-signature-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	ring, file, detached := filepath.Join(folder, "key"), filepath.Join(folder, "text"), filepath.Join(folder, "signature")
	binary, err := unarmored(key)
	if err == nil {
		err = errors.Join(os.WriteFile(ring, binary, 0o600), os.WriteFile(file, []byte(text), 0o600))
	}
	if err != nil {
		return "", err
	}
	args := []string{"--homedir", folder, "--keyring", ring, "--output", "-", file}
	if signature != "" {
		args = []string{"--homedir", folder, "--keyring", ring, detached, file}
		if err := os.WriteFile(detached, []byte(signature), 0o600); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the publisher's key has not signed this file, so it is not used: %w: %s", err,
			strings.TrimSpace(errOut.String()))
	}
	if signature != "" {
		return text, nil
	}
	return out.String(), nil
}

// unarmored returns the packets of an armored key, as RFC 9580 describes in section 6.
func unarmored(key string) ([]byte, error) {
	var body strings.Builder
	for line := range strings.Lines(key) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "=") && !strings.Contains(line, ":") {
			body.WriteString(line)
		}
	}
	return base64.StdEncoding.DecodeString(body.String())
}
