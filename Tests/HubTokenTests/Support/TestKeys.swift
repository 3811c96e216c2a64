import HubBase
import HubToken

/// Keys made for these tests alone, and what PyJWT signed with them.
enum TestKeys {
    static let rsaPrivate = Secret(
        Array(
            """
            -----BEGIN PRIVATE KEY-----
            MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCpgLd3yQdYFmKd
            XFQun1S31uzYtjWF7ViPBK38fPVjZpMNM6yR/6XHiU07cojg+OZPokNhCkZpZu5D
            dvYZ3asWDq1mwcozqC9sPz2vxOJHKQrzo2o7q+sPczXrWgrxGcYMiBanQ/GMQ3F+
            moGD2hvH2ZUcrKXfdOIeIeSp79PbZFyWdV3IV+ceOR1Oq7/vNcpCuTcG4v3+G0xB
            otHSEt9gK/8d6XxY10l9W3OLY17Z4WBGJeS7+FjuWHYo0Xm6fP3eudZvFXruEo1F
            XlTvqiXnL4CfMDbXLtQzq0DNykZGf+zGGuoW+Xohix2rYrgm3utokIlhniUgdazn
            Dvn6wn11AgMBAAECggEAFX72pXkH1qa+Gl09as03gfn+fuw6pPGo77hE9VaGizTU
            tNGnErvkUwYJVp7rl3ZRROub1mhmbhMI5+LkCns3aXxyhqvQYBU18GkjwlD6blJY
            6nWAsTEYBhVTEvYQGavuVyQCFXPTI/ngoJDpGGbWa5WfKKwHfCt3SqF7PYbl6/Zd
            HsgppnmXb+PklUbll/6VE40eHR0vxSUAdV9AzJAOz6gIlin2oPgnnG6f1XmrhV1C
            HUrwgVLuy9RB1PKVlrMK2dXx4Di59LwaDSQHbxsuyBBrWCezh6fCI+grO1fQzfwW
            6zyO/jD56B9w+SF2CGqms8tOpCDtMTZQfGR67SQJAQKBgQDg8WvL9rmKbSFpOiRq
            n6ep6MzCa08OYNVUnJN7JuyT4uk7wGqzAMSeSsnv7D7OfwU1+MIsgmANdXmHLhRQ
            dQKrCOgxdOBf9cmiWWOpIQAs4TE1IWPlLhhKrECAF3qHoPBcTqhcRVRJAZP69+VG
            h7Qm1mt/6fZAeJ0XBN2K2ckIdQKBgQDA58ShRPCsp0G3uZZkOtP1jFzwHXd+iAjw
            P6GgJsi1QWcSHm9iZj2ajeVLSEwqzQh1aRYTMICsiRAqOk7vvZmhwqyfQDdlBKZg
            WmxzNIN9VPZnoFsr1TPV+zDXaZ8nikQgXJrEIUDGjFZ+koy5XsVF2NOPnEbhnBZa
            Hz4zAg0BAQKBgDHGeloJ4Ii3GVuVmBVX+tvoPdcPs9C0sMAmXaQ0uskGvyGPtIyj
            sN5uIj1LA6LiDJ8iyqTavLJ9ukSld61OFycNs4OuHzBczR91tE3qlYVY13CwUNCX
            4Jw1fZhamayFemqSpUK1vK7jAIHadQukX8LwU51cgjdF+UzssLFW+9s5AoGAGPFe
            8WNSo2B1FOaAVbFtmsBte/azbr70OOxhX63kIdu1EhixWk3SBVv3nAZbIuWkBFp0
            KkMJQEXwuyUS89jWNp5PZ8AL6ZnyUV8fyr2titUjjz6iy0YkD7UNGa1kkN5F9NFE
            ibuq/oFC5dbZL1bbty5UHKueVqmyEjEb/8hyGgECgYEAo4ecH34DxOZZdtRdXtpR
            FPBdNo+Odb1rcAGjjltiNMPaYGLf/wa399ZjrT7vrxnm1A/jZqjSwTGqYvZIHt4Y
            PEHvD39idC25gK//1GOQhmEqGBdfOhoY9zTLz5tGVz0F8SljHrTgZX4C5aCPhbB0
            7+i7KGP/nGfBf1PanPQtGVQ=
            -----END PRIVATE KEY-----
            """.utf8))
    static let rsaPublic = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqYC3d8kHWBZinVxULp9U
        t9bs2LY1he1YjwSt/Hz1Y2aTDTOskf+lx4lNO3KI4PjmT6JDYQpGaWbuQ3b2Gd2r
        Fg6tZsHKM6gvbD89r8TiRykK86NqO6vrD3M161oK8RnGDIgWp0PxjENxfpqBg9ob
        x9mVHKyl33TiHiHkqe/T22RclnVdyFfnHjkdTqu/7zXKQrk3BuL9/htMQaLR0hLf
        YCv/Hel8WNdJfVtzi2Ne2eFgRiXku/hY7lh2KNF5unz93rnWbxV67hKNRV5U76ol
        5y+AnzA21y7UM6tAzcpGRn/sxhrqFvl6IYsdq2K4Jt7raJCJYZ4lIHWs5w75+sJ9
        dQIDAQAB
        -----END PUBLIC KEY-----
        """.utf8)

    static let smallPublic = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkPThp9Puj0xLw66tFZzA8lISb
        6ayYa2QkAA2SR4DuOslLW1deVxBUHrsVlARhDYPpkA+MiUFaO/9/B7lVfaCiKXeq
        fYz6GIKm1OFtutPXUAQxSkw8m+0a4eKCkSWvypgOOJgVYyw4a+FvmegSQ/ICN3L4
        zTSMxhZFNVbMqDUuKwIDAQAB
        -----END PUBLIC KEY-----
        """.utf8)

    static let p256Private = Secret(
        Array(
            """
            -----BEGIN PRIVATE KEY-----
            MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgK0IOAcMDl1rQkH9P
            CdWcA12Od6ivQmb3QXOKn8xA5gahRANCAARA42iwkA5dDdTq1EgDGbfZqoAHQYSr
            CATXbDIkMiP5xZiXd09AhHWtjifyFfwZUdUud6svYRmaQPqn4n71KDki
            -----END PRIVATE KEY-----
            """.utf8))
    static let p256Public = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQONosJAOXQ3U6tRIAxm32aqAB0GE
        qwgE12wyJDIj+cWYl3dPQIR1rY4n8hX8GVHVLnerL2EZmkD6p+J+9Sg5Ig==
        -----END PUBLIC KEY-----
        """.utf8)

    static let p384Private = Secret(
        Array(
            """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDyo76d8CjRo9Y1vfeY
            tjaqyNFUVTXSMb1UpQpAalBcrSHgPyJIufBMxSaBLh4Z+G2hZANiAAQOZtl0e4eP
            0yvd+w2NKZxIUTb8/VtuF6UoMBq5Y6rpm3HjOJUfWhlrcOrGlSykucX+wG2h9q9+
            ePLJ9oOiIN/BKKDC5ZdpldF0bBooHj35Hw+yfVgQ6SmBKcPvxVxX4Z8=
            -----END PRIVATE KEY-----
            """.utf8))
    static let p384Public = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEDmbZdHuHj9Mr3fsNjSmcSFE2/P1bbhel
        KDAauWOq6Ztx4ziVH1oZa3DqxpUspLnF/sBtofavfnjyyfaDoiDfwSigwuWXaZXR
        dGwaKB49+R8Psn1YEOkpgSnD78VcV+Gf
        -----END PUBLIC KEY-----
        """.utf8)

    static let k1Public = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAE2cL+VKQVhVfFejEh+VlaULtIYWxscZ0k
        Q1TAZsSgEuKR63D2MpbMNqWfNIfr4Xr8tvjPn8FVCCJuEPh1EZDmlg==
        -----END PUBLIC KEY-----
        """.utf8)

    static let p521Public = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAikkfg7+HINb4sOLqPM7iD5343x3W
        DJ2/8k+uNvxHWPWYMJj4wFxIlD7/2gVzErAlS5OGW3jJYBvdlrVXWOoIcb0Aufcb
        1mJkdWBuKyeHD88GmP8KMl8tJ0XxQToREYdJZ3x6YJNc30VW99R1tMr8T2eI4bnA
        b36JSDrQjQSQ+bHZMDQ=
        -----END PUBLIC KEY-----
        """.utf8)

    static let edPrivate = Secret(
        Array(
            """
            -----BEGIN PRIVATE KEY-----
            MC4CAQAwBQYDK2VwBCIEIBTSKek8b3B1kGsermtaoUKcAFGSbNfKmjQoxjWvOkim
            -----END PRIVATE KEY-----
            """.utf8))
    static let edPublic = Array(
        """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEAW7IVBmKyCvD7jl3vUV6hWH1szXh8BC9qAFs/5sVhGCA=
        -----END PUBLIC KEY-----
        """.utf8)

    /// The public keys as a JWK Set, by PyJWT; kid: r, p, e, e3, d.
    static let set = Array(
        """
        {
         "keys": [
          {
           "kty": "RSA",
           "n": "qYC3d8kHWBZinVxULp9Ut9bs2LY1he1YjwSt_Hz1Y2aTDTOskf-lx4lNO3KI4PjmT6JDYQpGaWbuQ3b2Gd2rFg6tZsHKM6gvbD89r8TiRykK86NqO6vrD3M161oK8RnGDIgWp0PxjENxfpqBg9obx9mVHKyl33TiHiHkqe_T22RclnVdyFfnHjkdTqu_7zXKQrk3BuL9_htMQaLR0hLfYCv_Hel8WNdJfVtzi2Ne2eFgRiXku_hY7lh2KNF5unz93rnWbxV67hKNRV5U76ol5y-AnzA21y7UM6tAzcpGRn_sxhrqFvl6IYsdq2K4Jt7raJCJYZ4lIHWs5w75-sJ9dQ",
           "e": "AQAB",
           "kid": "r"
          },
          {
           "kty": "RSA",
           "n": "qYC3d8kHWBZinVxULp9Ut9bs2LY1he1YjwSt_Hz1Y2aTDTOskf-lx4lNO3KI4PjmT6JDYQpGaWbuQ3b2Gd2rFg6tZsHKM6gvbD89r8TiRykK86NqO6vrD3M161oK8RnGDIgWp0PxjENxfpqBg9obx9mVHKyl33TiHiHkqe_T22RclnVdyFfnHjkdTqu_7zXKQrk3BuL9_htMQaLR0hLfYCv_Hel8WNdJfVtzi2Ne2eFgRiXku_hY7lh2KNF5unz93rnWbxV67hKNRV5U76ol5y-AnzA21y7UM6tAzcpGRn_sxhrqFvl6IYsdq2K4Jt7raJCJYZ4lIHWs5w75-sJ9dQ",
           "e": "AQAB",
           "kid": "p",
           "alg": "PS256"
          },
          {
           "kty": "EC",
           "crv": "P-256",
           "x": "QONosJAOXQ3U6tRIAxm32aqAB0GEqwgE12wyJDIj-cU",
           "y": "mJd3T0CEda2OJ_IV_BlR1S53qy9hGZpA-qfifvUoOSI",
           "kid": "e",
           "alg": "ES256"
          },
          {
           "kty": "EC",
           "crv": "P-384",
           "x": "DmbZdHuHj9Mr3fsNjSmcSFE2_P1bbhelKDAauWOq6Ztx4ziVH1oZa3DqxpUspLnF",
           "y": "_sBtofavfnjyyfaDoiDfwSigwuWXaZXRdGwaKB49-R8Psn1YEOkpgSnD78VcV-Gf",
           "kid": "e3"
          },
          {
           "x": "W7IVBmKyCvD7jl3vUV6hWH1szXh8BC9qAFs_5sVhGCA",
           "kty": "OKP",
           "crv": "Ed25519",
           "kid": "d",
           "alg": "EdDSA"
          }
         ]
        }
        """.utf8)

    /// `{"sub":"zoë","iat":1949999990,"exp":1950000060,"jti":"t1","caps":{"room:*":["subscribe","publish"]}}`, signed by PyJWT. Secrets: sixteen
    /// hexadecimal digits, four times.
    static let foreign: [TokenKey.Algorithm: String] = [
        .rs256:
            "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.ctytiNj40OqLDinur-5JRwDws1B0Mxr4npBLLFZ1zPzhzbdStdVmKza_awPs00R_dJ1mxM_jMVCba0IpCaY9IzuwAsWhUxGa78dZcVKlC4KhUzLfXVVOvFJr-bnsKIIw8EeFE--7knygdxprpUADFPJ34PoCBDz6siEj2-_lUWPVkBfl1vG342PBp3WfIwSJSL1VRlw2DpcEOFRk6bO1JWDkPUPmandv_97OCo950CEcL8mS8ddSi6DWmwqkgQp3jnPxrHoG0amxVkJr60Q5whhQhzw79RVFpF5QyiVQ3Y6BmEZMD1pDxwCEVKj5E1Ut-pXXUn2k0fcyOSqS0ohwxw",
        .ps256:
            "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.Ikx6lQfkWKxWSzD6kVRrWaVR_y2tv_yyHUu9qyIqyB3-ru96HEIfNFd7tBjlLa6m9Q2Qwr83u-EYcXWxkOz51KVtJicjzyJaOMZdizAs6cyakyjyeEq6pbPdJxRNeP6sMNcbBrqlvaQzcS8J9_K6l_aFoO6u7pyfOaWgoSSAdl5MmD4LiDdJ-XJX8g1lZqfspYmUBs-7b4K5LDo14bkJIWEQt-g8xD5F9GU7_utVmBgRFhjsOfkCMbKm4lI_IUFzUZ-QV5nTxg3ccim6Fw7BlwNv0U1I4QQNCJ-h9rf-NVf7PUsO3s62IlecaPmcArWjBs6RcI4_LY8eWvZ7__MR0Q",
        .es256:
            "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.JS_IrsSm6xUTnc2FZ48zTUEKId0VKqJQZ7mfDks6ob2Nw4WtY9FNnK56hfJLLRUlIZNBmOxkoHwnp20EsNmlEQ",
        .es384:
            "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.HenpPC1KBCgKTm3Qk0Z4Y0TS7tYwF04_tO-NUqLbfWP--uJEOcnQj4V8cX7h3Uskad6F5SjpejP3_12B-EJbgW9tOLrCp52sz7o3Sj-kFIsWSoV2MLsVnM_yyE9aW8bB",
        .edDSA:
            "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.cXbKWBseZ-s5oHveXRfQyq_Ix-arc5hHajICEwnjWWduRLYDa5ZFByA4elAqfcVzRdd_miVnow_00y_CSxqYAA",
        .hs256:
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.62-LLfpr3vKkgNQUEtvaRYkUCYGb0gWBnIlPIYmkU0w",
        .hs384:
            "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.54vKETWBZPAfHog_tmkdFErJw3FSYrmyplYlyKWmDPaZiTlAUcM1Yp5Godg9ee-e",
        .hs512:
            "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ6b1x1MDBlYiIsImlhdCI6MTk0OTk5OTk5MCwiZXhwIjoxOTUwMDAwMDYwLCJqdGkiOiJ0MSIsImNhcHMiOnsicm9vbToqIjpbInN1YnNjcmliZSIsInB1Ymxpc2giXX19.aVVZ_AHbv9N1HdS6g_n5mMrmirsGhbylAdemmuhwiBzjPgbDTDcVapk8IJNnAP0-3_5_MuwA1Ufm7-krIMUu9w",
    ]

    static let secret = Secret(Array(String(repeating: "0123456789abcdef", count: 4).utf8))

    /// What signs with an algorithm, and what checks.
    static func pair(_ algorithm: TokenKey.Algorithm, id: String? = nil) throws -> (signing: TokenKey, checking: TokenKey) {
        let (privatePEM, publicPEM): (Secret, [UInt8]) =
            switch algorithm {
            case .hs256, .hs384, .hs512: (secret, secret.bytes)
            case .rs256, .ps256: (rsaPrivate, rsaPublic)
            case .es256: (p256Private, p256Public)
            case .es384: (p384Private, p384Public)
            case .edDSA: (edPrivate, edPublic)
            }
        return (
            try TokenKey(id: id, algorithm: algorithm, bytes: privatePEM, forSigning: true),
            try TokenKey(id: id, algorithm: algorithm, bytes: Secret(publicPEM))
        )
    }
}
