package asset

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// signed returns the content of a signed text. The key, as gpg --armor exports it, must
// have signed it. Without a signature, the text is clear-signed.
func signed(ctx context.Context, text, signature, key string) (string, error) {
	content, err := gpgv(ctx, strings.NewReader(text), signature, key)
	if signature != "" {
		content = text
	}
	return content, err
}

// signedImage returns an error unless the key has signed an image.
func (f *Fetcher) signedImage(ctx context.Context, b Base, image string) error {
	signature, err := f.text(ctx, b.ImageSignature)
	if err != nil {
		return fmt.Errorf("fetching its signature %s: %w", Place(b.ImageSignature), err)
	}
	if signature == "" {
		return fmt.Errorf("its signature %s is empty", Place(b.ImageSignature))
	}
	file, err := os.Open(image)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = gpgv(ctx, file, signature, b.Key)
	return err
}

// gpgv verifies a content by its signature. Without one, it returns what a clear-signed
// content has.
func gpgv(ctx context.Context, content io.Reader, signature, key string) (string, error) {
	const program = "gpgv"
	if _, err := exec.LookPath(program); err != nil {
		return "", errors.New("verifying the signature needs gpgv: install it (Debian: gpgv, Fedora: gnupg2)")
	}
	folder, err := os.MkdirTemp("", "eksnode-signature-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	ring, detached := filepath.Join(folder, "key"), filepath.Join(folder, "signature")
	binary, err := unarmored(key)
	if err == nil {
		err = errors.Join(os.WriteFile(ring, binary, 0o600), os.WriteFile(detached, []byte(signature), 0o600))
	}
	if err != nil {
		return "", err
	}
	args := []string{"--homedir", folder, "--keyring", ring, "--output", "-"}
	if signature != "" {
		args = []string{"--homedir", folder, "--keyring", ring, detached, "-"}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = content, &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the publisher's key has not signed this file, so it is not used: %w: %s", err,
			strings.TrimSpace(errOut.String()))
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
