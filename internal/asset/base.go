package asset

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Base is a disk image that a build begins with.
type Base struct {
	// URL is the address. The name of the file may be a pattern if Sums lists the file.
	URL string
	// Sums is the address of a checksum file. Sum, if not empty, replaces it: a SHA-256 or
	// SHA-512 in hexadecimal.
	Sums, Sum string
	// Key, if not empty, is the key that has signed the checksum file. Signature is the
	// address of the signature; without one, the file itself has it. With ImageSignature, the
	// key has signed the image instead.
	Key, Signature, ImageSignature string
}

// Base returns the path of a verified disk image, which must not be changed.
func (c *Cache) Base(ctx context.Context, b Base, progress plan.Progress) (string, error) {
	address, err := url.Parse(b.URL)
	if err != nil {
		// The error may contain a part of a password.
		return "", errors.New("the address of the base image cannot be read; write special characters in a user, " +
			"a password or a name as %40 and the like")
	}
	pattern := path.Base(address.Path)
	name, sum, err := c.fetcher.find(ctx, b, pattern)
	if err != nil {
		return "", err
	}
	if name != pattern {
		address.Path = path.Join(path.Dir(address.Path), name)
	}
	kept, err := c.keep(ctx, sum, 0, func(file *os.File) (int64, error) {
		return c.resumeBase(ctx, address.String(), sum, file, progress)
	})
	if err == nil && b.ImageSignature != "" {
		err = c.fetcher.signedImage(ctx, b, kept.Path)
	}
	if err != nil {
		return "", fmt.Errorf("fetching the base image %s: %w", Place(address.String()), err)
	}
	return kept.Path, nil
}

// CheckSum returns an error if a file does not have a SHA-256 or SHA-512.
func CheckSum(ctx context.Context, name, sum string) error {
	if err := CheckDigest(sum); err != nil {
		return err
	}
	sum = strings.ToLower(sum)
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	found := hashOf(sum)
	if _, err := io.Copy(found, expand.Until(ctx, file)); err != nil {
		return err
	}
	return compare(found, sum)
}

func compare(found hash.Hash, sum string) error {
	if got := hex.EncodeToString(found.Sum(nil)); got != sum {
		return fmt.Errorf("its checksum is %s, not %s; check the file and the checksum", got, sum)
	}
	return nil
}

// CheckDigest returns an error if sum is no SHA-256 or SHA-512 in hexadecimal.
func CheckDigest(sum string) error {
	if !isDigest(strings.ToLower(sum)) {
		return fmt.Errorf("%q is neither a SHA-256 nor a SHA-512 in hexadecimal", sum)
	}
	return nil
}

// hashOf returns the hash of a sum, by its length.
func hashOf(sum string) hash.Hash {
	if len(sum) == 2*sha512.Size {
		return sha512.New()
	}
	return sha256.New()
}

// resumeBase appends the missing bytes to a file and verifies the whole file.
func (c *Cache) resumeBase(ctx context.Context, address, sum string, file *os.File,
	progress plan.Progress) (int64, error) {
	found := hashOf(sum)
	return resume(ctx, file, found, func(from int64) (content, error) {
		return c.fetcher.open(ctx, address, from)
	}, func(body content, done int64) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			n, err := body.Read(p)
			found.Write(p[:n])
			done += int64(n)
			progress(done, max(body.size, 0))
			return n, err
		})
	}, func(int64) error { return compare(found, sum) })
}

// find returns the name and the checksum of a disk image whose name matches a pattern.
func (f *Fetcher) find(ctx context.Context, b Base, pattern string) (name, sum string, err error) {
	if b.Sum != "" {
		return pattern, strings.ToLower(b.Sum), CheckDigest(b.Sum)
	}
	if b.Sums == "" {
		return "", "", fmt.Errorf("the base image %s has no checksum; nothing is used without one", Place(b.URL))
	}
	text, err := f.text(ctx, b.Sums)
	signature := ""
	if err == nil && b.Signature != "" {
		signature, err = f.text(ctx, b.Signature)
	}
	if err == nil && b.Key != "" && b.ImageSignature == "" {
		text, err = signed(ctx, text, signature, b.Key)
	}
	if err == nil {
		name, sum, err = listed(text, pattern)
	}
	if err != nil {
		return "", "", fmt.Errorf("reading the checksum file %s: %w", Place(b.Sums), err)
	}
	return name, sum, nil
}

func isDigest(s string) bool {
	return (len(s) == 2*sha256.Size || len(s) == 2*sha512.Size) && strings.Trim(s, "0123456789abcdef") == ""
}

// listed finds the last file that matches a pattern in a checksum file of coreutils or of
// BSD, and returns its name and sum.
func listed(text, pattern string) (name, sum string, err error) {
	type row struct{ name, sum string }
	var rows []row
	for line := range strings.Lines(withoutSignature(text)) {
		fields := strings.Fields(line)
		var r row
		switch {
		case len(fields) == 2: // SUM  NAME
			r = row{path.Base(strings.TrimPrefix(fields[1], "*")), fields[0]}
		case len(fields) == 4 && fields[2] == "=": // SHA256 (NAME) = SUM
			r = row{strings.Trim(fields[1], "()"), fields[3]}
		default:
			continue
		}
		if matches, err := path.Match(pattern, r.name); err != nil {
			return "", "", err
		} else if r.sum = strings.ToLower(r.sum); matches && isDigest(r.sum) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return "", "", fmt.Errorf("the file does not list %s with a SHA-256 or SHA-512", pattern)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	newest := rows[len(rows)-1]
	for _, r := range rows {
		if r.name == newest.name && len(r.sum) == len(newest.sum) && r.sum != newest.sum {
			return "", "", errors.New("the file has two different sums of " + r.name)
		}
	}
	return newest.name, newest.sum, nil
}
