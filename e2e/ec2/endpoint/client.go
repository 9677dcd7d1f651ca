package endpoint

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client makes calls of the protocols EC2 and Query for tests that look at what
// a program has left with a double, or go on with it.
type Client struct {
	// URL is the endpoint's.
	URL string
	// HTTP reaches it; http.DefaultClient when nil.
	HTTP      *http.Client
	AccessKey string
	Region    string
}

// Call makes one call. The answer's XML is read into the answer, a pointer or
// nil; a failure comes back as a *Failure.
func (c Client) Call(ctx context.Context, service Service, action string, parameters map[string]string, answer any) error {
	form := url.Values{"Action": {action}}
	switch protocol := service.Protocol.(type) {
	case EC2:
		form.Set("Version", protocol.Version)
	case Query:
		form.Set("Version", protocol.Version)
	default:
		return fmt.Errorf("calling %s:%s: not a service of the protocol EC2 or Query", service.Name, action)
	}
	for name, value := range parameters {
		form.Set(name, value)
	}
	status, body, err := c.post(ctx, service.Name, form)
	if err == nil && status != http.StatusOK {
		err = readFailure(status, body)
	} else if err == nil && answer != nil {
		err = xml.Unmarshal(body, answer)
	}
	if err != nil {
		return fmt.Errorf("calling %s:%s: %w", service.Name, action, err)
	}
	return nil
}

// post signs with the scope alone, since no signature is verified.
func (c Client) post(ctx context.Context, service string, form url.Values) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", fmt.Sprintf(
		"AWS4-HMAC-SHA256 Credential=%s/20060102/%s/%s/aws4_request, SignedHeaders=host, Signature=none",
		c.AccessKey, c.Region, service))
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

func readFailure(status int, body []byte) error {
	var either struct {
		EC2   []xmlError `xml:"Errors>Error"`
		Query []xmlError `xml:"Error"`
	}
	if err := xml.Unmarshal(body, &either); err != nil || len(either.EC2)+len(either.Query) == 0 {
		return fmt.Errorf("HTTP status %d: %s", status, body)
	}
	first := append(either.EC2, either.Query...)[0]
	return &Failure{Code: first.Code, Message: first.Message, Status: status}
}
