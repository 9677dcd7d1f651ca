# Provisions a machine, again, and once more after a restart, then scrubs it. The
# second and third run must change nothing. Its variables are among those of
# examples/local. Some shapes are of releases that have ended.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "host" {
  type = string
}

variable "port" {
  type = number
}

variable "user" {
  type = string
}

variable "private_key" {
  type = string
}

variable "kubernetes_version" {
  type = string
}

variable "source_url" {
  type = string
}

variable "allow_http" {
  type = bool
}

variable "reports" {
  type = string
}

source "null" "machine" {
  ssh_host             = var.host
  ssh_port             = var.port
  ssh_username         = var.user
  ssh_private_key_file = var.private_key
}

build {
  sources = ["source.null.machine"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    source_url         = var.source_url
    allow_http         = var.allow_http
    accept_ended       = true
    report             = "${var.reports}/provision.json"
  }

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    source_url         = var.source_url
    allow_http         = var.allow_http
    accept_ended       = true
    report             = "${var.reports}/again.json"
  }

  # The command does not return: the restart ends its session.
  provisioner "shell" {
    inline            = ["sudo systemctl reboot && sleep infinity"]
    expect_disconnect = true
  }

  # Packer repeats the upload of this script until the machine answers again.
  provisioner "shell" {
    inline = ["echo the machine is up again"]
  }

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    source_url         = var.source_url
    allow_http         = var.allow_http
    accept_ended       = true
    report             = "${var.reports}/restarted.json"
  }

  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.json"
  }
}
